-- The word index as PostgreSQL has it: a tsvector for each row, and how many rows have each word. The next sync reads
-- every note again.
DROP TABLE posting, long_word;
ALTER TABLE chunk DROP COLUMN lengths;
DELETE FROM meta WHERE key IN ('word_rows', 'word_total');
UPDATE chunk SET words = '';
UPDATE note SET parsed_by = '';
UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'generation';  -- a running daemon looks again
UPDATE meta n SET value = g.value FROM meta g
WHERE g.root = n.root AND g.key = 'generation' AND n.key = 'notes_generation';

-- `item` is 0 for a chunk, otherwise the number of a group's item. The labels A to D of a word's places say that it is
-- in the body, the heading, the context or the script without spaces. The word `:7` is in every row of memory 7: the
-- index of all memories then finds those of one.
CREATE TABLE word_row (
    root integer NOT NULL,
    chunk bigint NOT NULL,
    item integer NOT NULL,
    length integer NOT NULL,            -- in words
    words tsvector NOT NULL,
    PRIMARY KEY (root, chunk, item) INCLUDE (length)
) WITH (toast_tuple_target = 8160);     -- a search reads the words of many rows: they are not stored elsewhere
CREATE INDEX word_row_words ON word_row USING gin (words);

CREATE TABLE vocabulary (
    root integer NOT NULL,
    word text COLLATE "C" NOT NULL,
    rows integer NOT NULL,
    PRIMARY KEY (root, word)
) WITH (fillfactor = 70);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['word_row', 'vocabulary'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY granted ON %I FOR SELECT USING (root IN (SELECT readable()))', name);
    END LOOP;
END $$;

-- The functions below run with the rights of the tables' owner: row-level security would keep the index of words from
-- every other role, because it compares each row before. So they look themselves whether the role may read the memory.
CREATE FUNCTION may_read(memory integer) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memsync, pg_temp AS $$
    SELECT pg_has_role(session_user, current_user, 'USAGE') OR memory IN (SELECT readable())
$$;
-- The rows of a memory that match a query, which contains the word of the memory.
CREATE FUNCTION rows_with(memory integer, query tsquery) RETURNS TABLE (chunk bigint, item integer)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, memsync, pg_temp AS $$
    SELECT w.chunk, w.item FROM word_row w WHERE w.root = memory AND w.words @@ query AND (SELECT may_read(memory))
$$;
-- The best of these rows, best first, by the bm25 of some terms, whose inverse document frequencies are `idfs`; only
-- those of the chunks `among`, unless it is NULL. `mean` is the mean length of a row.
--
-- ts_rank of a word in n places is (1 + 1/4 + … + 1/n²) / 1.645 if each place weighs 1; a place in the context weighs
-- half. So n is about rank / (1.645 (1 − rank)), and n / (n + k), as bm25 counts it, is 1 / (1 − 1.645 k + 1.645 k / rank).
-- A phrase counts once. The sum is written out, because a loop over the terms for each row takes four times as long.
CREATE FUNCTION best_rows(
    memory integer, query tsquery, terms text[], are_words boolean[], idfs float8[], mean float8, among bigint[],
    most integer
) RETURNS TABLE (chunk bigint, item integer, length integer, words tsvector) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memsync, pg_temp SET jit = off SET enable_seqscan = off AS $$
BEGIN
    IF NOT may_read(memory) THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE (
        SELECT format(
            'SELECT w.chunk, w.item, w.length, w.words FROM (
                SELECT r.*, 1.645 * 1.2 * (0.25 + 0.75 * r.length / $1) AS k FROM word_row r
                WHERE r.root = $2 AND r.words @@ $3 %s
            ) w ORDER BY %s DESC, w.chunk, w.item LIMIT $5',
            CASE WHEN among IS NOT NULL THEN 'AND r.chunk IN (SELECT unnest($4))' END,
            string_agg(format(CASE WHEN is_word
                THEN '%s::float8 / (1 - w.k + w.k / greatest(ts_rank(''{1, 0.5, 1, 1}'', w.words, %L), 1e-9))'
                ELSE '%s::float8 / (1 + w.k / 1.645) * (w.words @@ %L)::integer' END, idf, term), ' + '))
        FROM unnest(terms, are_words, idfs) t (term, is_word, idf)
    ) USING mean, memory, query, among, most;
END $$;

CREATE OR REPLACE FUNCTION forget_rows() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, memsync, pg_temp AS $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'meta', 'note', 'passage', 'chunk', 'fact', 'tag', 'link', 'message', 'word_row', 'vocabulary', 'space',
        'embedding', 'pending', 'grantee'
    ] LOOP
        EXECUTE format('DELETE FROM %I WHERE root = $1', name) USING OLD.root;
    END LOOP;
    RETURN NULL;
END $$;
