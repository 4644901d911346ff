-- Remove all tables and what they hold. The notes are not affected: a sync fills new tables from them.

DROP TABLE IF EXISTS memory, meta, note, passage, chunk, fact, tag, link, message, posting, long_word, space, embedding, pending,
    grantee CASCADE;
DROP FUNCTION IF EXISTS forget_rows(), readable();
