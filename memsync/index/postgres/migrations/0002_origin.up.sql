-- Whom a chunk is from. The next sync reads every note again, because the parser's version is another one.
ALTER TABLE chunk ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT 'owner';
