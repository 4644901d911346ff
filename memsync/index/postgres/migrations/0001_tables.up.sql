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
    first_time text COLLATE "C" NOT NULL,
    last_time text COLLATE "C" NOT NULL,
    attributes text COLLATE "C" NOT NULL,
    entries text COLLATE "C" NOT NULL,
    opening bytea NOT NULL,
    words bytea NOT NULL,
    tokens integer NOT NULL,            -- of its entries
    lengths bytea NOT NULL,             -- words of each of its rows by column: four numbers of four bytes
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

-- The word index, see postings.py.
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
BEGIN
    DELETE FROM meta WHERE root = OLD.root;
    DELETE FROM note WHERE root = OLD.root;
    DELETE FROM passage WHERE root = OLD.root;
    DELETE FROM chunk WHERE root = OLD.root;
    DELETE FROM fact WHERE root = OLD.root;
    DELETE FROM tag WHERE root = OLD.root;
    DELETE FROM link WHERE root = OLD.root;
    DELETE FROM message WHERE root = OLD.root;
    DELETE FROM posting WHERE root = OLD.root;
    DELETE FROM long_word WHERE root = OLD.root;
    DELETE FROM space WHERE root = OLD.root;
    DELETE FROM embedding WHERE root = OLD.root;
    DELETE FROM pending WHERE root = OLD.root;
    DELETE FROM grantee WHERE root = OLD.root;
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
        'memory', 'meta', 'note', 'passage', 'chunk', 'fact', 'tag', 'link', 'message', 'posting', 'long_word',
        'space', 'embedding', 'pending'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY granted ON %I FOR SELECT USING (root IN (SELECT readable()))', name);
    END LOOP;
END $$;
