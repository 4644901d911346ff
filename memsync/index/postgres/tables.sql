-- @extension@ stands for the schema of pgvector, which is not in the search path: others may make functions there, and
-- PostgreSQL prefers those whose arguments fit better, wherever they are.

-- The tables of all memories. Every key begins with `root`, the number of the memory, so that a cluster can distribute
-- rows by it. Moments are text as in the notes; the columns of note, chunk and message are those of the SQLite index.

CREATE TABLE memory (
    root integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    -- The machine and folder that may write this memory: an id to compare, and a text for people.
    writer text COLLATE "C" NOT NULL DEFAULT '',
    writer_label text NOT NULL DEFAULT '',
    claimed_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE meta (
    root integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, key)
) WITH (fillfactor = 50);

CREATE TABLE note (
    root integer NOT NULL,
    id bigint NOT NULL,
    path_key bytea NOT NULL,            -- SHA-256 of the path, which may be too long for an index
    path text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    tier text COLLATE "C" NOT NULL,
    title text COLLATE "C" NOT NULL,
    date text COLLATE "C" NOT NULL,
    session text COLLATE "C" NOT NULL,
    importance double precision NOT NULL,
    pinned boolean NOT NULL,
    archived boolean NOT NULL,
    front_matter text COLLATE "C" NOT NULL,
    warnings text COLLATE "C" NOT NULL,
    fields text[] NOT NULL,             -- of the front matter: user, project, status, source
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    ctime_ns bigint NOT NULL,
    inode bigint NOT NULL,
    digest bytea NOT NULL,
    stamped_ns bigint NOT NULL,
    parsed_by text COLLATE "C" NOT NULL,
    blob bytea NOT NULL,
    committed bigint NOT NULL DEFAULT 0,
    content bytea,                      -- with store_text: zlib of its lines
    PRIMARY KEY (root, id),
    UNIQUE (root, path_key)
);
ALTER TABLE note ALTER content SET STORAGE EXTERNAL;
CREATE INDEX note_archived ON note (root) WHERE archived;

CREATE TABLE passage (
    root integer NOT NULL,
    id bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (root, id),
    UNIQUE (root, hash)
);

CREATE TABLE chunk (
    root integer NOT NULL,
    id bigint NOT NULL,
    note bigint NOT NULL,
    ordinal integer NOT NULL,
    passage bigint,
    form text COLLATE "C" NOT NULL,
    word_rows integer NOT NULL,
    section integer NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    start_column integer NOT NULL,
    end_column integer NOT NULL,
    heading_path text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    first_time text COLLATE "C" NOT NULL,
    last_time text COLLATE "C" NOT NULL,
    attributes text COLLATE "C" NOT NULL,
    entries text COLLATE "C" NOT NULL,
    opening bytea NOT NULL,
    words bytea NOT NULL,
    tokens integer NOT NULL,            -- of its entries
    PRIMARY KEY (root, id)
);
CREATE INDEX chunk_note ON chunk (root, note, ordinal);
CREATE INDEX chunk_passage ON chunk (root, passage);

-- What `where` compares: values of the front matter (chunk 0), and attributes of chunks.
CREATE TABLE fact (
    root integer NOT NULL,
    note bigint NOT NULL,
    chunk bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL
);
CREATE INDEX fact_note ON fact (root, note, chunk);
CREATE INDEX fact_chunk ON fact (root, chunk) WHERE chunk > 0;
-- The attributes by which an entry says that something is superseded: a search reads them all.
CREATE INDEX fact_superseding ON fact (root) WHERE key ~* 'supersede';

CREATE TABLE tag (
    root integer NOT NULL,
    chunk bigint NOT NULL,
    name text COLLATE "C" NOT NULL
);
CREATE INDEX tag_chunk ON tag (root, chunk);

CREATE TABLE link (
    root integer NOT NULL,
    note bigint NOT NULL,
    target text COLLATE "C" NOT NULL,
    anchor text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    line integer NOT NULL,
    wiki boolean NOT NULL
);
CREATE INDEX link_note ON link (root, note);

CREATE TABLE message (
    root integer NOT NULL,
    note bigint NOT NULL,
    ordinal integer NOT NULL,
    role text COLLATE "C" NOT NULL,
    time text COLLATE "C" NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    model text COLLATE "C" NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    cost_nanos bigint NOT NULL,
    attributes text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, note, ordinal)
);

-- The word index: a tsvector for each row, and how many rows have each word.
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

CREATE TABLE space (
    root integer NOT NULL,
    id integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    dimension integer NOT NULL,
    state text COLLATE "C" NOT NULL,    -- 'active' answers searches, 'building' will, 'retired' only keeps vectors
    PRIMARY KEY (root, id),
    UNIQUE (root, name)
);

-- The vectors by content hash. `passage` is NULL if the space is retired: searches skip the row. A vector whose text is
-- gone is deleted, because the text may have become local-only.
CREATE TABLE embedding (
    root integer NOT NULL,
    space integer NOT NULL,
    hash bytea NOT NULL,
    passage bigint,
    dimension smallint NOT NULL,
    stored bigint GENERATED BY DEFAULT AS IDENTITY,  -- tells which of the vectors without a passage are oldest
    value @extension@.halfvec NOT NULL,
    PRIMARY KEY (root, space, hash)
);
ALTER TABLE embedding ALTER value SET STORAGE PLAIN;
CREATE INDEX embedding_passage ON embedding (root, space, passage) WHERE passage IS NOT NULL;

CREATE TABLE pending (
    root integer NOT NULL,
    space integer NOT NULL,
    passage bigint NOT NULL,
    PRIMARY KEY (root, space, passage)
);

-- Deleting a memory deletes all its rows. A trigger does it, because foreign keys would look up the memory for each
-- row that is written.
CREATE FUNCTION forget_rows() RETURNS trigger LANGUAGE plpgsql
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
CREATE TRIGGER memory_deleted AFTER DELETE ON memory FOR EACH ROW EXECUTE FUNCTION forget_rows();

-- Which database roles may read which memory. Roles are kept by oid, because a name may be given to another role.
CREATE TABLE grantee (
    root integer NOT NULL,
    role oid NOT NULL,
    PRIMARY KEY (root, role)
);
-- The memories that the session's role may read: granted to it, or to a group whose rights it has.
CREATE FUNCTION readable() RETURNS SETOF integer LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, memsync, pg_temp AS $$
    SELECT g.root FROM grantee g JOIN pg_roles r ON r.oid = g.role WHERE pg_has_role(session_user, r.oid, 'USAGE')
$$;
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'memory', 'meta', 'note', 'passage', 'chunk', 'fact', 'tag', 'link', 'message', 'word_row', 'vocabulary',
        'space', 'embedding', 'pending'
    ] LOOP
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

-- The version of these tables.
CREATE TABLE migration (number integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now());
