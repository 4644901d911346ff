DROP FUNCTION IF EXISTS best_rows, rows_with, may_read;
DROP TABLE IF EXISTS word_row, vocabulary;
ALTER TABLE chunk ADD COLUMN lengths bytea NOT NULL DEFAULT '';
UPDATE chunk SET words = '';
UPDATE note SET parsed_by = '';
UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'generation';  -- a running daemon looks again
UPDATE meta n SET value = g.value FROM meta g
WHERE g.root = n.root AND g.key = 'generation' AND n.key = 'notes_generation';
CREATE TABLE posting (
    root integer NOT NULL,
    word text COLLATE "C" NOT NULL,
    block integer NOT NULL,
    rows integer NOT NULL,
    postings bytea NOT NULL,
    places bytea NOT NULL
);
ALTER TABLE posting ALTER postings SET STORAGE EXTERNAL, ALTER places SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX posting_word ON posting (root, word, block) INCLUDE (rows);
CREATE INDEX posting_block ON posting (root, block);
CREATE TABLE long_word (
    root integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    word text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, key)
);
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['posting', 'long_word'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY granted ON %I FOR SELECT USING (root IN (SELECT readable()))', name);
    END LOOP;
END $$;
CREATE OR REPLACE FUNCTION forget_rows() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, memsync, pg_temp AS $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'meta', 'note', 'passage', 'chunk', 'fact', 'tag', 'link', 'message', 'posting', 'long_word', 'space',
        'embedding', 'pending', 'grantee'
    ] LOOP
        EXECUTE format('DELETE FROM %I WHERE root = $1', name) USING OLD.root;
    END LOOP;
    RETURN NULL;
END $$;
