"""The statements that read, one constant each, with a comment that says what it returns and in which order.

All parameters are named; `root` is the number of the memory. A parameter of NULL does not filter. Lists are arrays.
"""

from __future__ import annotations

# When a note was last changed, in nanoseconds: the commit that gave it its content, otherwise the file's mtime.
_CHANGED_NS = "CASE WHEN n.committed > 0 THEN n.committed * 1000000000 ELSE n.mtime_ns END"

# A chunk's first and last moment: from its timed entries, otherwise the note's date, otherwise the note's last change
# in the local time of this machine, which :changes and :offsets describe.
_CHANGED_S = f"(({_CHANGED_NS}) / 1000000000)"
_OFFSET = f"(%(offsets)s::integer[])[width_bucket({_CHANGED_S}, %(changes)s::bigint[])]"
_CHANGED = f"to_char(to_timestamp({_CHANGED_S} + {_OFFSET}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI')"
_NOTE_DATE = f"CASE WHEN n.date <> '' THEN n.date ELSE {_CHANGED} END"
_FIRST = f"(CASE WHEN c.first_time <> '' THEN c.first_time ELSE {_NOTE_DATE} END) COLLATE \"C\""
_LAST = f"(CASE WHEN c.last_time <> '' THEN c.last_time ELSE {_NOTE_DATE} END) COLLATE \"C\""

# Compare the pairs of --where with the values of the front matter and of the chunk's attributes: equal without regard
# to case, or a moment of the day. A class may be one of several.
_CLOCK = "[T ][0-9][0-9]:[0-9][0-9]"
_WHERE = f"""
    NOT EXISTS (
        SELECT FROM unnest(%(where_keys)s::text[], %(where_folded)s::text[], %(where_values)s::text[],
                           %(where_days)s::text[]) w (key, folded, value, day)
        WHERE NOT EXISTS (
            SELECT FROM fact f
            WHERE f.root = n.root AND f.note = n.id AND f.chunk IN (0, c.id) AND f.key = w.key
              AND (f.folded = w.folded
                   OR (w.day <> '' AND f.value ~ ('^' || w.day || '{_CLOCK}'))
                   OR (f.chunk > 0 AND w.key = 'class'
                       AND position(' ' || w.value || ' ' IN ' ' || f.value || ' ') > 0))))
"""

# Which chunks pass the filters. :notes are the ids of the notes that pass PASSING_NOTES. :tags are the names in table
# tag that the filter names; :required and :excluded are ids of chunks with the phrases and with excluded words. Windows
# have no words of their own; a group passes an exclusion, because its entries are tested one by one.
_CONDITIONS = f"""
        (%(archived)s OR NOT n.archived)
    AND (%(notes)s::bigint[] IS NULL OR c.note = ANY (%(notes)s))
    AND (%(roles)s::text[] IS NULL OR EXISTS (
            SELECT FROM unnest(%(roles)s::text[]) role WHERE c.role = role OR starts_with(c.role, role || ':')))
    AND (%(origins)s::text[] IS NULL OR EXISTS (
            SELECT FROM unnest(%(origins)s::text[]) origin
            WHERE c.origin = origin OR starts_with(c.origin, origin || ':')))
    AND (%(tags)s::text[] IS NULL OR EXISTS (
            SELECT FROM tag t WHERE t.root = c.root AND t.chunk = c.id AND t.name = ANY (%(tags)s)))
    AND (%(after)s::text = '' OR left({_LAST}, length(%(after)s::text)) >= %(after)s::text)
    AND (%(before)s::text = '' OR left({_FIRST}, length(%(before)s::text)) <= %(before)s::text)
    AND (%(where_keys)s::text[] IS NULL OR {_WHERE})
    AND (%(required)s::bigint[] IS NULL OR c.id = ANY (%(required)s))
    AND (%(excluded)s::bigint[] IS NULL OR c.form = 'group' OR NOT c.id = ANY (%(excluded)s))
    AND (%(required)s::bigint[] IS NULL AND %(excluded)s::bigint[] IS NULL OR c.form <> 'window')
"""
_CHUNKS_OF_NOTES = "chunk c JOIN note n ON n.root = c.root AND n.id = c.note"

# (id, path) of the notes that pass the other filters that are about notes, except globs of paths.
PASSING_NOTES = """
SELECT n.id, n.path FROM note n WHERE n.root = %(root)s
    AND (%(kinds)s::text[] IS NULL OR n.kind = ANY (%(kinds)s))
    AND (%(tiers)s::text[] IS NULL OR n.tier = ANY (%(tiers)s))
    AND (%(sessions)s::text[] IS NULL OR n.session = ANY (%(sessions)s))
    AND (%(folders)s::text[] IS NULL OR EXISTS (
            SELECT FROM unnest(%(folders)s::text[]) folder WHERE starts_with(n.path, folder)))
    AND (%(paths)s::text[] IS NULL OR n.path = ANY (%(paths)s))
"""

# The ids of the chunks among :ids that pass the filters.
PASSING = f"SELECT c.id FROM {_CHUNKS_OF_NOTES} WHERE c.root = %(root)s AND c.id = ANY (%(ids)s) AND {_CONDITIONS}"

# The ids of the chunks that pass the filters, as one array.
ALL_PASSING = f"""
SELECT coalesce(array_agg(c.id), '{{}}') FROM {_CHUNKS_OF_NOTES} WHERE c.root = %(root)s AND {_CONDITIONS}
"""

TAGS = "SELECT DISTINCT name FROM tag WHERE root = %(root)s"

# (tag, number of notes with it that are not archived)
TAG_COUNTS = f"""
SELECT t.name, count(DISTINCT n.id) FROM {_CHUNKS_OF_NOTES} JOIN tag t ON t.root = c.root AND t.chunk = c.id
WHERE n.root = %(root)s AND NOT n.archived GROUP BY t.name
"""

# One row if any note is archived.
SOME_ARCHIVED = "SELECT 1 FROM note WHERE root = %(root)s AND archived LIMIT 1"

NOTES_WHERE = f"""
SELECT DISTINCT n.path FROM {_CHUNKS_OF_NOTES}
WHERE n.root = %(root)s AND NOT n.archived AND {_WHERE}
ORDER BY n.path
"""

# (number of rows in the word index, number of their words)
WORD_ROWS = "SELECT count(*), coalesce(sum(length), 0) FROM word_row WHERE root = %(root)s"
# (word, number of rows that have it) of those of :words that any row has.
COUNTS_OF_WORDS = "SELECT word, rows FROM vocabulary WHERE root = %(root)s AND word = ANY (%(words)s)"
# (number of rows that match) for each of :matches, in their order.
COUNTS_OF_MATCHES = """
SELECT (SELECT count(*) FROM rows_with(%(root)s, m.match::tsquery))
FROM unnest(%(matches)s::text[]) WITH ORDINALITY m (match, position) ORDER BY m.position
"""
# (chunk, item, length, words) of the :limit best rows that match, best first by nearly their bm25.
BEST_ROWS = """
SELECT chunk, item, length, words::text FROM best_rows(%(root)s, %(match)s::text::tsquery, %(terms)s::text[],
    %(are_words)s, %(idfs)s, %(mean)s, %(among)s, %(limit)s)
"""
# (chunk, item) of the rows of :chunks that match.
ROWS_WITH = """
SELECT chunk, item FROM rows_with(%(root)s, %(match)s::text::tsquery) WHERE chunk = ANY (%(chunks)s)
"""
# The chunks of the rows that match, as one array.
CHUNKS_WITH = """
SELECT coalesce(array_agg(DISTINCT chunk), '{}') FROM rows_with(%(root)s, %(match)s::text::tsquery)
"""
# The words from :prefix to :after.
WORDS_WITH_PREFIX = "SELECT word FROM vocabulary WHERE root = %(root)s AND word >= %(prefix)s AND word < %(after)s"

# (passage, float16 vector) of the :limit nearest passages of one space, nearest first, compared with every vector.
# {extension} is the schema of pgvector.
NEAREST = """
SELECT e.passage, e.value FROM embedding e
WHERE e.root = %(root)s AND e.space = %(space)s AND e.passage IS NOT NULL
ORDER BY e.value OPERATOR({extension}.<#>) %(vector)s::{extension}.halfvec LIMIT %(limit)s
"""
# The same, only passages of chunks that pass the filters.
NEAREST_FILTERED = f"""
SELECT e.passage, e.value FROM embedding e
WHERE e.root = %(root)s AND e.space = %(space)s AND e.passage IN (
    SELECT c.passage FROM {_CHUNKS_OF_NOTES} WHERE c.root = %(root)s AND {_CONDITIONS})
ORDER BY e.value OPERATOR({{extension}}.<#>) %(vector)s::{{extension}}.halfvec LIMIT %(limit)s
"""
# The same as the two above by the HNSW index of a dimension, which nearly always returns the nearest.
NEAREST_INDEXED = """
SELECT e.passage, e.value FROM embedding e
WHERE e.root = %(root)s AND e.space = %(space)s AND e.passage IS NOT NULL AND e.dimension = {dimension}
ORDER BY (e.value::{extension}.halfvec({dimension}))
    OPERATOR({extension}.<#>) %(vector)s::{extension}.halfvec({dimension}) LIMIT %(limit)s
"""
NEAREST_INDEXED_FILTERED = f"""
SELECT e.passage, e.value FROM embedding e
WHERE e.root = %(root)s AND e.space = %(space)s AND e.passage IS NOT NULL AND e.dimension = {{dimension}}
  AND EXISTS (
    SELECT FROM {_CHUNKS_OF_NOTES} WHERE c.root = e.root AND c.passage = e.passage AND {_CONDITIONS})
ORDER BY (e.value::{{extension}}.halfvec({{dimension}}))
    OPERATOR({{extension}}.<#>) %(vector)s::{{extension}}.halfvec({{dimension}}) LIMIT %(limit)s
"""
# How many passages there are, counted up to :enough.
PASSAGES = "SELECT count(*) FROM (SELECT FROM passage WHERE root = %(root)s LIMIT %(enough)s) counted"
# How many chunks with a passage pass the filters, counted up to :enough.
PASSING_PASSAGES = f"""
SELECT count(*) FROM (
    SELECT FROM {_CHUNKS_OF_NOTES} WHERE c.root = %(root)s AND c.passage IS NOT NULL AND {_CONDITIONS}
    LIMIT %(enough)s) passing
"""
# Whether the HNSW index :name is there and can be used.
HAS_HNSW = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid)
"""

# (chunk, passage) of every chunk with one of :passages.
CHUNKS_OF_PASSAGES = "SELECT c.id, c.passage FROM chunk c WHERE c.root = %(root)s AND c.passage = ANY (%(passages)s)"
# The same, only chunks that pass the filters.
CHUNKS_OF_PASSAGES_FILTERED = f"""
SELECT c.id, c.passage FROM {_CHUNKS_OF_NOTES}
WHERE c.root = %(root)s AND c.passage = ANY (%(passages)s) AND {_CONDITIONS}
"""

# Ids of the texts and groups that pass the filters, latest first: for a query that has only filters.
LATEST = f"""
SELECT c.id FROM {_CHUNKS_OF_NOTES} WHERE c.root = %(root)s AND c.form IN ('text', 'group') AND {_CONDITIONS}
ORDER BY {_LAST} DESC, n.path, c.start_line LIMIT %(limit)s
"""

# The columns of IndexedChunk for the chunks in :ids, in no order.
CHUNKS = f"""
SELECT c.id, n.path, c.section, c.start_line, c.end_line, c.start_column, c.end_column, coalesce(p.hash, ''::bytea),
       c.heading_path, c.role, c.entries, n.kind, n.tier, n.title, n.date, n.importance, n.pinned, {_CHANGED_NS},
       n.size, n.mtime_ns, n.ctime_ns, n.inode, c.form, c.opening, false, c.origin
FROM {_CHUNKS_OF_NOTES} LEFT JOIN passage p ON p.root = c.root AND p.id = c.passage
WHERE c.root = %(root)s AND c.id = ANY (%(ids)s)
"""

# (path, kind, tier, title, date, latest moment in a log or thread, pinned, archived, front matter, mtime_ns, last
# change in nanoseconds) of every note, by path.
NOTES = f"""
SELECT n.path, n.kind, n.tier, n.title, n.date,
       CASE WHEN n.kind IN ('daily', 'thread') THEN coalesce((
           SELECT max(c.last_time) FROM chunk c WHERE c.root = n.root AND c.note = n.id), '') ELSE '' END,
       n.pinned, n.archived, n.front_matter, n.mtime_ns, {_CHANGED_NS}
FROM note n WHERE n.root = %(root)s ORDER BY n.path
"""

# The chunks with an entry that says that something is superseded, by note and line.
MARKED_CHUNKS = """
SELECT c.id FROM chunk c WHERE c.root = %(root)s AND c.form <> 'window' AND c.id IN (
    SELECT f.chunk FROM fact f WHERE f.root = %(root)s AND f.key ~* 'supersede' AND f.chunk > 0)
ORDER BY c.note, c.ordinal
"""
# (path, origin) of every origin of a note's text, in no order.
ORIGINS = """
SELECT DISTINCT n.path, c.origin FROM chunk c JOIN note n ON n.root = c.root AND n.id = c.note
WHERE c.root = %(root)s AND c.form NOT IN ('heading', 'field')
"""
# The notes with an entry that itself says when it holds, or that it does not.
LAPSING = """
SELECT DISTINCT n.path FROM fact f JOIN note n ON n.root = f.root AND n.id = f.note
WHERE f.root = %(root)s AND f.chunk > 0 AND f.key ~* '^(~past|valid)'
"""
# (path, date, front matter) of the notes whose front matter may say what holds and what does not, by path.
MARKED_NOTES = """
SELECT path, date, front_matter FROM note
WHERE root = %(root)s AND front_matter ~* 'supersede|valid|"status"' ORDER BY path
"""

# (path, target, anchor, label, line, whether it is a wiki link) of every link, by path and line.
LINKS = """
SELECT n.path, l.target, l.anchor, l.label, l.line, l.wiki FROM link l JOIN note n ON n.root = l.root AND n.id = l.note
WHERE l.root = %(root)s ORDER BY n.path, l.line, l.target, l.anchor
"""

# (passage, tokens, path, first line, last line) of every text or group of at least :tokens tokens, by path, without
# archived notes and pieces of lines.
SINGLE_ENTRIES = f"""
SELECT c.passage, c.tokens, n.path, c.start_line, c.end_line FROM {_CHUNKS_OF_NOTES}
WHERE c.root = %(root)s AND c.form IN ('text', 'group') AND c.end_column = 0 AND NOT n.archived
  AND c.tokens >= %(tokens)s
ORDER BY n.path, c.ordinal
"""

# (passage, float16 vector in the active space) of :passages, by hash: an order that does not depend on when they were
# indexed.
ACTIVE_VECTORS = """
SELECT e.passage, e.value FROM space s JOIN embedding e ON e.root = s.root AND e.space = s.id
WHERE s.root = %(root)s AND s.state = 'active' AND e.passage = ANY (%(passages)s) ORDER BY e.hash
"""

# (path, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, parsed_by) of every note, in no order. A note whose text
# is stored although it must not be, or the other way round, is parsed by nothing that a sync knows.
STAMPS = """
SELECT path, size, mtime_ns, ctime_ns, inode, digest, stamped_ns,
       CASE WHEN (content IS NOT NULL) = %(stores_text)s THEN parsed_by ELSE '' END
FROM note WHERE root = %(root)s
"""
# (text, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, blob) of one note whose text is stored.
STORED_NOTE = """
SELECT content, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, blob
FROM note WHERE root = %(root)s AND path_key = %(key)s AND content IS NOT NULL
"""

STORED_PATHS = "SELECT path FROM note WHERE root = %(root)s AND content IS NOT NULL ORDER BY path"
# Whether there are notes, but the text of none.
LACKS_TEXT = """
SELECT EXISTS (SELECT FROM note WHERE root = %(root)s)
   AND NOT EXISTS (SELECT FROM note WHERE root = %(root)s AND content IS NOT NULL)
"""

# (description) of every space, oldest first.
SPACES = "SELECT description FROM space WHERE root = %(root)s ORDER BY id"
# (id, dimension, description) of the space in a state, of which `active` and `building` have one at most.
SPACE_IN_STATE = "SELECT id, dimension, description FROM space WHERE root = %(root)s AND state = %(state)s"
SPACE_NUMBER = "SELECT id FROM space WHERE root = %(root)s AND name = %(name)s"
PASSAGE_COUNT = "SELECT count(*) FROM passage WHERE root = %(root)s"
# How many passages wait for a vector in :space.
PENDING_COUNT = "SELECT count(*) FROM pending WHERE root = %(root)s AND space = %(space)s"

# (passage, hash, path of a note that has it) of those of :passages that wait for a vector in :space, in their order.
PENDING = f"""
SELECT p.id, p.hash, (
    SELECT n.path FROM {_CHUNKS_OF_NOTES} WHERE c.root = p.root AND c.passage = p.id LIMIT 1)
FROM unnest(%(passages)s::bigint[]) WITH ORDINALITY i (id, position)
JOIN pending w ON w.root = %(root)s AND w.space = %(space)s AND w.passage = i.id
JOIN passage p ON p.root = w.root AND p.id = w.passage ORDER BY i.position
"""

# (passage, note) of every passage that waits for a vector in :space, in the order of the text. A passage in several
# notes is returned once per note.
WAITING = """
SELECT w.passage, c.note FROM pending w LEFT JOIN chunk c ON c.root = w.root AND c.passage = w.passage
WHERE w.root = %(root)s AND w.space = %(space)s ORDER BY c.note, c.ordinal, w.passage
"""

# (id, path, pinned, importance, last change, telling passage) of the notes that wait for a vector in :space. The
# telling passage is the first of at least :enough tokens among the first :beginning chunks, otherwise the first one.
WAITING_NOTES = f"""
SELECT n.id, n.path, n.pinned, n.importance, {_CHANGED_NS}, coalesce(
    (SELECT c.passage FROM chunk c WHERE c.root = n.root AND c.note = n.id AND c.ordinal < %(beginning)s
     AND c.passage IS NOT NULL AND c.tokens >= %(enough)s ORDER BY c.ordinal LIMIT 1),
    (SELECT c.passage FROM chunk c WHERE c.root = n.root AND c.note = n.id AND c.passage IS NOT NULL
     ORDER BY c.ordinal LIMIT 1))
FROM note n WHERE n.root = %(root)s AND n.id IN (
    SELECT c.note FROM pending w JOIN chunk c ON c.root = w.root AND c.passage = w.passage
    WHERE w.root = %(root)s AND w.space = %(space)s)
"""

# (passage, hash) of passages that wait for a vector in :space and have a higher id than :after, by id.
PENDING_HASHES = """
SELECT p.id, p.hash FROM pending w JOIN passage p ON p.root = w.root AND p.id = w.passage
WHERE w.root = %(root)s AND w.space = %(space)s AND w.passage > %(after)s ORDER BY w.passage LIMIT %(limit)s
"""

# The same of all passages, for a space that is not there yet.
PASSAGE_HASHES = "SELECT id, hash FROM passage WHERE root = %(root)s AND id > %(after)s ORDER BY id LIMIT %(limit)s"

# (hash, float16 vector) of the vectors of :space with a higher hash than :after, by hash.
VECTORS = """
SELECT hash, value FROM embedding
WHERE root = %(root)s AND space = %(space)s AND hash > %(after)s ORDER BY hash LIMIT %(limit)s
"""

# One row of figures: notes, chunks, passages.
COUNTS = """
SELECT (SELECT count(*) FROM note WHERE root = %(root)s), (SELECT count(*) FROM chunk WHERE root = %(root)s),
       (SELECT count(*) FROM passage WHERE root = %(root)s)
"""

# (path, JSON list of warnings) of every note that has any, by path.
WARNINGS = "SELECT path, warnings FROM note WHERE root = %(root)s AND warnings <> '[]' ORDER BY path"

# The number of notes that have their date from a commit.
COMMITTED = "SELECT count(*) FROM note WHERE root = %(root)s AND committed > 0 AND date = ''"

# (path, title, session, user, project, status, archived, last time, source, messages, tokens in, tokens out, nanos) of
# each thread, by path. Messages without a time are counted, too.
THREADS = """
SELECT n.path, n.title, n.session, n.fields[1], n.fields[2], n.fields[3], n.archived, coalesce(max(m.time), ''),
       n.fields[4],
       count(m.note), coalesce(sum(m.tokens_in), 0)::bigint, coalesce(sum(m.tokens_out), 0)::bigint,
       coalesce(sum(m.cost_nanos), 0)::bigint
FROM note n LEFT JOIN message m ON m.root = n.root AND m.note = n.id
WHERE n.root = %(root)s AND n.kind = 'thread' AND (%(path)s::text IS NULL OR n.path = %(path)s)
GROUP BY n.root, n.id ORDER BY n.path
"""

# (path, session, first line, last line, role, time, attributes) of the messages of a role, newest first. The role
# `agent` means every agent.
MESSAGES = """
SELECT n.path, n.session, m.start_line, m.end_line, m.role, m.time, m.attributes
FROM message m JOIN note n ON n.root = m.root AND n.id = m.note
WHERE m.root = %(root)s AND (m.role = %(role)s OR starts_with(m.role, %(role)s || ':'))
  AND (%(session)s = '' OR n.session = %(session)s)
ORDER BY m.time DESC, n.path, m.ordinal DESC
"""

# (key, messages, tokens in, tokens out, nanos) of the messages since a moment that have tokens or a cost, by one of
# COST_KEYS, in its order.
COSTS = """
SELECT {key}, count(*), sum(m.tokens_in)::bigint, sum(m.tokens_out)::bigint, sum(m.cost_nanos)::bigint
FROM message m JOIN note n ON n.root = m.root AND n.id = m.note
WHERE m.root = %(root)s AND m.time >= %(since)s AND (m.tokens_in > 0 OR m.tokens_out > 0 OR m.cost_nanos > 0)
GROUP BY 1 ORDER BY {order}
"""
_COSTLIEST = "sum(m.cost_nanos) DESC, sum(m.tokens_in) + sum(m.tokens_out) DESC, 1"
COST_KEYS = {
    "session": ("n.session", _COSTLIEST),
    "model": ("m.model", _COSTLIEST),
    "agent": (
        "CASE WHEN starts_with(m.role, 'agent:') THEN substr(m.role, 7) "
        "ELSE coalesce(nullif(n.fields[5], ''), m.role) END",
        _COSTLIEST,
    ),
    "day": ("substr(m.time, 1, 10)", "1"),
}

# The canonical dump: everything that depends only on files, HEAD, settings and model, so without ids and stamps.
DUMP_NOTES = """
SELECT 'note', path, kind, tier, title, date, session, importance, pinned::int, archived::int, 0, front_matter,
       warnings,
       encode(digest, 'hex'), parsed_by, encode(blob, 'hex'), committed
FROM note WHERE root = %(root)s ORDER BY path
"""
DUMP_CHUNKS = f"""
SELECT 'chunk', n.path, c.ordinal, c.form, c.section, c.start_line, c.end_line, c.start_column, c.end_column,
       c.heading_path, c.role, c.origin, c.first_time, c.last_time, c.attributes, c.entries, encode(c.opening, 'hex'),
       c.word_rows, encode(c.words, 'hex'), coalesce(encode(p.hash, 'hex'), '')
FROM {_CHUNKS_OF_NOTES} LEFT JOIN passage p ON p.root = c.root AND p.id = c.passage
WHERE c.root = %(root)s ORDER BY n.path, c.ordinal
"""
DUMP_TAGS = f"""
SELECT 'tag', n.path, c.ordinal, t.name
FROM {_CHUNKS_OF_NOTES} JOIN tag t ON t.root = c.root AND t.chunk = c.id
WHERE c.root = %(root)s ORDER BY n.path, c.ordinal, lower(t.name COLLATE "C"), t.name
"""
DUMP_LINKS = """
SELECT 'link', n.path, l.line, l.target, l.anchor, l.label, l.wiki::int
FROM link l JOIN note n ON n.root = l.root AND n.id = l.note
WHERE l.root = %(root)s ORDER BY n.path, l.line, l.target, l.anchor, l.label
"""
DUMP_MESSAGES = """
SELECT 'message', n.path, m.ordinal, m.role, m.time, m.start_line, m.end_line, m.model, m.tokens_in, m.tokens_out,
       m.cost_nanos, m.attributes
FROM message m JOIN note n ON n.root = m.root AND n.id = m.note WHERE m.root = %(root)s ORDER BY n.path, m.ordinal
"""
DUMP_PASSAGES = "SELECT 'passage', encode(hash, 'hex') FROM passage WHERE root = %(root)s ORDER BY hash"
# (hash, float16 vector) of the passages with a vector in :space, by hash.
DUMP_VECTORS = """
SELECT p.hash, e.value FROM embedding e JOIN passage p ON p.root = e.root AND p.id = e.passage
WHERE e.root = %(root)s AND e.space = %(space)s ORDER BY p.hash
"""
# The words of each row, and how many rows have a word.
DUMP_WORDS = f"""
SELECT 'words of', n.path, c.ordinal, w.item, w.length, ts_delete(w.words, ':' || w.root)::text
FROM {_CHUNKS_OF_NOTES} JOIN word_row w ON w.root = c.root AND w.chunk = c.id
WHERE c.root = %(root)s ORDER BY n.path, c.ordinal, w.item
"""
DUMP_VOCABULARY = "SELECT 'word', word, rows FROM vocabulary WHERE root = %(root)s ORDER BY word"
