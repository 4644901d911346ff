"""The statements that read, one constant each, with a comment that says what it returns and in which order.

All parameters are named. Lists are passed as JSON text and read with json_each. schema.py defines folded() for each
connection, because SQLite's own lower() handles only ASCII.
"""

from __future__ import annotations

GROUP_ROWS = 1 << 40
MAX_ITEMS = 256
"""A chunk's row in chunk_fts has the chunk's id; a group's rows have GROUP_ROWS + MAX_ITEMS × its id + item number.

So most row numbers are consecutive, for which FTS5 needs one byte per place of a word instead of two.
"""


def chunk_of(row: str) -> str:
    """Return the SQL for the id of the chunk that a row of chunk_fts belongs to."""
    return f"(({row} & {GROUP_ROWS - 1}) >> (({row} >> 40) * 8))"


def item_of(row: str) -> str:
    """Return the SQL for the item number of a group's row of chunk_fts; 0 for other chunks."""
    return f"(({row} >> 40) * ({row} & {MAX_ITEMS - 1}))"


def chunk_and_item(row: int) -> tuple[int, int]:
    """Return the id of a row's chunk and the item number, 0 for the whole chunk."""
    return divmod(row - GROUP_ROWS, MAX_ITEMS) if row >= GROUP_ROWS else (row, 0)


# When a note was last changed, in nanoseconds: the commit that gave it its content, otherwise the file's mtime.
_CHANGED_NS = "CASE WHEN n.committed > 0 THEN n.committed * 1000000000 ELSE n.mtime_ns END"

# A chunk's first and last moment: from its timed entries, otherwise the note's date, otherwise the note's last change
# in local time.
_CHANGED = f"strftime('%Y-%m-%dT%H:%M', ({_CHANGED_NS}) / 1000000000, 'unixepoch', 'localtime')"
_NOTE_DATE = f"CASE WHEN n.date <> '' THEN n.date ELSE {_CHANGED} END"
_FIRST = f"CASE WHEN c.first_time <> '' THEN c.first_time ELSE {_NOTE_DATE} END"
_LAST = f"CASE WHEN c.last_time <> '' THEN c.last_time ELSE {_NOTE_DATE} END"

# Compare one pair of --where with the chunk's attributes (a list of [key, value]) and the note's front matter (scalars,
# or lists that contain the value). JSON's true and false are compared as written. A day also matches every moment of
# that day, in the time zone in which the moment is written. SQLite reads the front matter of all notes once a query,
# because nothing in that part belongs to the chunk: a read for each chunk took half a second for 40,000 chunks.
_IS_DAY = "w.value ->> 1 GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'"
_CLOCK = "'[T ][0-9][0-9]:[0-9][0-9]*'"
_TEXT_OF_FRONT_MATTER = "CASE f.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(f.value AS TEXT) END"
_WHERE_PAIR = f"""
    c.attributes <> '[]' AND EXISTS (
        SELECT 1 FROM json_each(c.attributes) a
        WHERE a.value ->> 0 = w.value ->> 0
          AND (folded(a.value ->> 1) = folded(w.value ->> 1)
               OR ({_IS_DAY} AND a.value ->> 1 GLOB (w.value ->> 1) || {_CLOCK})
               OR (a.value ->> 0 = 'class' AND instr(' ' || (a.value ->> 1) || ' ', ' ' || (w.value ->> 1) || ' ')))
    ) OR (n.id, w.key) IN (
        SELECT m.id, w.key FROM json_each(:where) w, note m, json_each(m.front_matter) f
        WHERE f.key = w.value ->> 0
          AND (folded({_TEXT_OF_FRONT_MATTER}) = folded(w.value ->> 1)
               OR ({_IS_DAY} AND f.value GLOB (w.value ->> 1) || {_CLOCK})
               OR (f.type = 'array' AND EXISTS (
                      SELECT 1 FROM json_each(f.value) i
                      WHERE folded(CAST(i.value AS TEXT)) = folded(w.value ->> 1)
                         OR ({_IS_DAY} AND i.value GLOB (w.value ->> 1) || {_CLOCK}))))
    )"""

# Which chunks pass the filters. A NULL parameter does not filter; :tags are those of TAGS that the filter names. If
# words are required or excluded, windows do not pass, because they have no words of their own. Groups pass an
# exclusion; MATCHING_ROWS then tells which of their entries have the words.
_CONDITIONS = f"""
        (:archived OR NOT n.archived)
    AND (:kinds IS NULL OR n.kind IN (SELECT value FROM json_each(:kinds)))
    AND (:tiers IS NULL OR n.tier IN (SELECT value FROM json_each(:tiers)))
    AND (:sessions IS NULL OR n.session IN (SELECT value FROM json_each(:sessions)))
    AND (:folders IS NULL OR EXISTS (
            SELECT 1 FROM json_each(:folders) WHERE substr(n.path, 1, length(value)) = value))
    AND (:notes IS NULL OR n.path IN (SELECT value FROM json_each(:notes)))
    AND (:path_globs IS NULL OR EXISTS (SELECT 1 FROM json_each(:path_globs) WHERE n.path GLOB value))
    AND (:roles IS NULL OR EXISTS (
            SELECT 1 FROM json_each(:roles)
            WHERE c.role = value OR substr(c.role, 1, length(value) + 1) = value || ':'))
    AND (:origins IS NULL OR EXISTS (
            SELECT 1 FROM json_each(:origins)
            WHERE c.origin = value OR substr(c.origin, 1, length(value) + 1) = value || ':'))
    AND (:tags IS NULL OR EXISTS (
            SELECT 1 FROM tag t WHERE t.chunk = c.id AND t.name IN (SELECT value FROM json_each(:tags))))
    AND (:after = '' OR substr({_LAST}, 1, length(:after)) >= :after)
    AND (:before = '' OR substr({_FIRST}, 1, length(:before)) <= :before)
    AND (:where IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(:where) w WHERE NOT ({_WHERE_PAIR})))
    AND (:required IS NULL OR c.id IN (SELECT {chunk_of("rowid")} FROM chunk_fts WHERE chunk_fts MATCH :required))
    AND (:excluded IS NULL OR c.form = 'group'
         OR c.id NOT IN (SELECT {chunk_of("rowid")} FROM chunk_fts WHERE chunk_fts MATCH :excluded))
    AND (:required IS NULL AND :excluded IS NULL OR c.form <> 'window')
"""

# The rows of chunk_fts that :match finds for the chunks in :ids.
MATCHING_ROWS = f"""
SELECT rowid FROM chunk_fts
WHERE chunk_fts MATCH :match AND {chunk_of("+rowid")} IN (SELECT value FROM json_each(:ids))
"""

TAGS = "SELECT DISTINCT name FROM tag"

# (tag, number of notes with it that are not archived)
TAG_COUNTS = """
SELECT t.name, count(DISTINCT n.id) FROM tag t JOIN chunk c ON c.id = t.chunk JOIN note n ON n.id = c.note
WHERE NOT n.archived GROUP BY t.name
"""

# One row if any note is archived.
SOME_ARCHIVED = "SELECT 1 FROM note WHERE archived LIMIT 1"

NOTES_WHERE = f"""
SELECT DISTINCT n.path FROM chunk c JOIN note n ON n.id = c.note
WHERE NOT n.archived AND NOT EXISTS (SELECT 1 FROM json_each(:where) w WHERE NOT ({_WHERE_PAIR}))
ORDER BY n.path
"""

# bm25() with one weight per column of chunk_fts: body, heading and date, context, cjk. Lower is better in FTS5.
_BM25 = "bm25(chunk_fts, 1.0, 1.0, 0.5, 1.0)"

# The number of rows in the word index, and the number of rows that match one word.
CHUNK_COUNT = "SELECT CAST(total(word_rows) AS INTEGER) FROM chunk"
WORD_COUNT = "SELECT count(*) FROM chunk_fts WHERE chunk_fts MATCH ?"
# The stems of the word index from one to another, in order.
STEMS = "SELECT term FROM temp.term WHERE term >= ? AND term < ?"

# (row, bm25) of the best rows of chunk_fts for :match, best first.
KEYWORD = f"""
SELECT chunk_fts.rowid, {_BM25} AS distance FROM chunk_fts
WHERE chunk_fts MATCH :match ORDER BY distance LIMIT :limit
"""

# The same, only chunks that pass the filters. The plus keeps FTS5 from looking up each chunk separately, which is ten
# times slower than reading all matches and testing them.
KEYWORD_FILTERED = f"""
SELECT chunk_fts.rowid, {_BM25} AS distance FROM chunk_fts
WHERE chunk_fts MATCH :match
  AND {chunk_of("+chunk_fts.rowid")} IN (SELECT c.id FROM chunk c JOIN note n ON n.id = c.note WHERE {_CONDITIONS})
ORDER BY distance LIMIT :limit
"""

# (passage id, float16 vector) of the :limit nearest passages of one space by int8 distance, in no order.
NEAREST = """
SELECT near.rowid, vector.value
FROM (SELECT rowid FROM vec_{space} WHERE embedding MATCH vec_int8(:vector) AND k = :limit) near
JOIN vector ON vector.space = :space AND vector.passage = near.rowid
"""

# (bits of the used slots, passages, int8 vectors) of each chunk of a vec0 table.
VECTOR_CHUNKS = """
SELECT c.validity, c.rowids, v.vectors
FROM vec_{space}_chunks c JOIN vec_{space}_vector_chunks00 v ON v.rowid = c.chunk_id
"""
# (passage, float16 vector) of the passages in :passages that have one.
VECTORS_OF = """
SELECT passage, value FROM vector WHERE space = :space AND passage IN (SELECT value FROM json_each(:passages))
"""

# The same as NEAREST, only passages of chunks that pass the filters.
NEAREST_FILTERED = f"""
SELECT near.rowid, vector.value FROM (
    SELECT rowid FROM vec_{{space}} WHERE embedding MATCH vec_int8(:vector) AND k = :limit
       AND rowid IN (SELECT c.passage FROM chunk c JOIN note n ON n.id = c.note WHERE {_CONDITIONS})
) near
JOIN vector ON vector.space = :space AND vector.passage = near.rowid
"""

# (chunk id, passage id) of every chunk with one of the passages in :passages.
CHUNKS_OF_PASSAGES = """
SELECT c.id, c.passage FROM chunk c WHERE c.passage IN (SELECT value FROM json_each(:passages))
"""

# The same, only chunks that pass the filters.
CHUNKS_OF_PASSAGES_FILTERED = f"""
SELECT c.id, c.passage FROM chunk c JOIN note n ON n.id = c.note
WHERE c.passage IN (SELECT value FROM json_each(:passages)) AND {_CONDITIONS}
"""

# Ids of the texts and groups that pass the filters, latest first: for a query that has only filters.
LATEST = f"""
SELECT c.id FROM chunk c JOIN note n ON n.id = c.note WHERE c.form IN ('text', 'group') AND {_CONDITIONS}
ORDER BY {_LAST} DESC, n.path, c.start_line LIMIT :limit
"""

# The columns of IndexedChunk for the chunks in :ids, in no order.
CHUNKS = f"""
SELECT c.id, n.path, c.section, c.start_line, c.end_line, c.start_column, c.end_column, coalesce(p.hash, x''),
       c.heading_path, c.role, c.entries, n.kind, n.tier, n.title, n.date, n.importance, n.pinned, {_CHANGED_NS},
       n.size, n.mtime_ns, n.ctime_ns, n.inode, c.form, c.opening, n.local_only, c.origin
FROM chunk c JOIN note n ON n.id = c.note LEFT JOIN passage p ON p.id = c.passage
WHERE c.id IN (SELECT value FROM json_each(:ids))
"""

# (path, kind, tier, title, date, latest moment in a log or thread, pinned, archived, front matter, mtime_ns, last
# change in nanoseconds) of every note, by path.
NOTES = f"""
SELECT n.path, n.kind, n.tier, n.title, n.date,
       CASE WHEN n.kind IN ('daily', 'thread')
            THEN coalesce((SELECT max(c.last_time) FROM chunk c WHERE c.note = n.id), '') ELSE '' END,
       n.pinned, n.archived, n.front_matter, n.mtime_ns, {_CHANGED_NS}
FROM note n ORDER BY n.path
"""

# The chunks with an entry that says that something is superseded, by note and line.
MARKED_CHUNKS = """
SELECT id FROM chunk WHERE instr(lower(attributes), 'supersede') AND form <> 'window' ORDER BY note, ordinal
"""
# (path, origin) of every origin of a note's text, in no order.
ORIGINS = """
SELECT DISTINCT n.path, c.origin FROM chunk c JOIN note n ON n.id = c.note WHERE c.form NOT IN ('heading', 'field')
"""
# The notes with an entry that itself says when it holds, or that it does not.
LAPSING = """
SELECT DISTINCT n.path FROM chunk c JOIN note n ON n.id = c.note
WHERE instr(c.attributes, '["~past"') OR instr(lower(c.attributes), '["valid')
"""
# (path, date, front matter) of the notes whose front matter may say what holds and what does not, by path.
MARKED_NOTES = """
SELECT path, date, front_matter FROM note
WHERE instr(lower(front_matter), 'supersede') OR instr(lower(front_matter), 'valid')
   OR instr(lower(front_matter), '"status"')
ORDER BY path
"""

# (path, target, anchor, label, line, whether it is a wiki link) of every link, by path and line.
LINKS = """
SELECT n.path, l.target, l.anchor, l.label, l.line, l.wiki FROM link l JOIN note n ON n.id = l.note
ORDER BY n.path, l.line, l.target, l.anchor
"""

# (passage id, tokens, path, first line, last line) of every text or group of at least :tokens tokens, by path, without
# archived notes and pieces of lines.
_TOKENS = "(SELECT sum(value ->> 4) FROM json_each(c.entries))"
SINGLE_ENTRIES = f"""
SELECT c.passage, {_TOKENS}, n.path, c.start_line, c.end_line
FROM chunk c JOIN note n ON n.id = c.note
WHERE c.form IN ('text', 'group') AND c.end_column = 0 AND NOT n.archived AND {_TOKENS} >= :tokens
ORDER BY n.path, c.ordinal
"""

# (passage id, float16 vector in the active space) of the passages in :passages, by hash: an order that does not depend
# on when they were indexed.
ACTIVE_VECTORS = """
SELECT p.id, v.value FROM passage p
JOIN space s ON s.state = 'active'
JOIN vector v ON v.space = s.id AND v.passage = p.id
WHERE p.id IN (SELECT value FROM json_each(:passages)) ORDER BY p.hash
"""

# (path, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, parsed_by) of every note, in no order.
STAMPS = "SELECT path, size, mtime_ns, ctime_ns, inode, digest, stamped_ns, parsed_by FROM note"

# (description) of every space, oldest first.
SPACES = "SELECT description FROM space ORDER BY id"
# (id, dimension, description) of the space in a state, of which `active` and `building` have one at most.
SPACE_IN_STATE = "SELECT id, dimension, description FROM space WHERE state = :state"
SPACE_NUMBER = "SELECT id FROM space WHERE name = :name"
PASSAGE_COUNT = "SELECT count(*) FROM passage"
# How many passages wait for a vector in :space.
PENDING_COUNT = "SELECT count(*) FROM pending WHERE space = :space"

# (id, hash, compressed text or NULL, path of a note that has it) of those of :passages that wait for a vector in
# :space, in the order of :passages. CROSS JOIN, because otherwise SQLite reads all waiting passages each time.
PENDING = """
SELECT p.id, p.hash, w.text,
       (SELECT n.path FROM chunk c JOIN note n ON n.id = c.note WHERE c.passage = p.id LIMIT 1)
FROM json_each(:passages) i CROSS JOIN pending w ON w.space = :space AND w.passage = i.value
JOIN passage p ON p.id = w.passage ORDER BY i.key
"""

# (passage, note) of every passage that waits for a vector in :space, in the order of the text. A passage in several
# notes is returned once per note.
WAITING = """
SELECT w.passage, c.note FROM pending w LEFT JOIN chunk c ON c.passage = w.passage
WHERE w.space = :space ORDER BY c.note, c.ordinal, w.passage
"""

# (id, path, pinned, importance, last change, telling passage) of the notes that wait for a vector in :space. The
# telling passage is the first of at least :enough tokens among the first :beginning chunks, otherwise the first one.
WAITING_NOTES = f"""
SELECT n.id, n.path, n.pinned, n.importance, {_CHANGED_NS}, coalesce(
    (SELECT c.passage FROM chunk c WHERE c.note = n.id AND c.ordinal < :beginning AND c.passage IS NOT NULL
     AND (SELECT sum(CAST(e.value ->> '$[4]' AS INTEGER)) FROM json_each(c.entries) e) >= :enough
     ORDER BY c.ordinal LIMIT 1),
    (SELECT c.passage FROM chunk c WHERE c.note = n.id AND c.passage IS NOT NULL ORDER BY c.ordinal LIMIT 1))
FROM note n WHERE n.id IN (SELECT c.note FROM pending w JOIN chunk c ON c.passage = w.passage WHERE w.space = :space)
"""

# (id, hash) of passages that wait for a vector in :space and have a higher id than :after, by id.
PENDING_HASHES = """
SELECT p.id, p.hash FROM pending w JOIN passage p ON p.id = w.passage
WHERE w.space = :space AND w.passage > :after ORDER BY w.passage LIMIT :limit
"""

# The same of all passages, for a space that is not there yet.
PASSAGE_HASHES = "SELECT id, hash FROM passage WHERE id > :after ORDER BY id LIMIT :limit"

# (hash, float16 vector) of the vectors of :space with a higher hash than :after, by hash.
VECTORS = """
SELECT p.hash, v.value FROM passage p JOIN vector v ON v.space = :space AND v.passage = p.id
WHERE p.hash > :after ORDER BY p.hash LIMIT :limit
"""

# The number of passages that only local-only notes have.
LOCAL_ONLY_PASSAGES = "SELECT count(*) FROM passage WHERE local_only"

# One row of figures: notes, chunks, passages.
COUNTS = "SELECT (SELECT count(*) FROM note), (SELECT count(*) FROM chunk), (SELECT count(*) FROM passage)"

# (path, warning) of every warning, by path.
WARNINGS = "SELECT n.path, w.value FROM note n, json_each(n.warnings) w ORDER BY n.path, w.key"

# (path, blob, seconds) of every note in HEAD's tree, in no order.
HISTORY = "SELECT path, blob, committed FROM history"

# The number of notes that have their date from a commit.
COMMITTED = "SELECT count(*) FROM note WHERE committed > 0 AND date = ''"

_FIELD = "coalesce(CAST(n.front_matter ->> '{name}' AS TEXT), '')"
# (path, title, session, user, project, status, archived, last time, source, messages, tokens in, tokens out, nanos) of
# each thread, by path. Messages without a time are counted, too.
THREADS = f"""
SELECT n.path, n.title, n.session, {_FIELD.format(name="user")}, {_FIELD.format(name="project")},
       {_FIELD.format(name="status")}, n.archived, coalesce(max(m.time), ''),
       {_FIELD.format(name="source")},
       count(m.note), coalesce(sum(m.tokens_in), 0), coalesce(sum(m.tokens_out), 0), coalesce(sum(m.cost_nanos), 0)
FROM note n LEFT JOIN message m ON m.note = n.id
WHERE n.kind = 'thread' AND (:path IS NULL OR n.path = :path)
GROUP BY n.id ORDER BY n.path
"""

# (path, session, first line, last line, role, time, attributes) of the messages of a role, newest first. The role
# `agent` means every agent.
MESSAGES = """
SELECT n.path, n.session, m.start_line, m.end_line, m.role, m.time, m.attributes
FROM message m JOIN note n ON n.id = m.note
WHERE (m.role = :role OR substr(m.role, 1, length(:role) + 1) = :role || ':')
  AND (:session = '' OR n.session = :session)
ORDER BY m.time DESC, n.path, m.ordinal DESC
"""

# (key, messages, tokens in, tokens out, nanos) of the messages since a moment that have tokens or a cost, by one of
# COST_KEYS, in its order.
COSTS = """
SELECT {key}, count(*), sum(m.tokens_in), sum(m.tokens_out), sum(m.cost_nanos)
FROM message m JOIN note n ON n.id = m.note
WHERE m.time >= :since AND (m.tokens_in OR m.tokens_out OR m.cost_nanos)
GROUP BY 1 ORDER BY {order}
"""
COST_KEYS = {
    "session": ("n.session", "5 DESC, 3 + 4 DESC, 1"),
    "model": ("m.model", "5 DESC, 3 + 4 DESC, 1"),
    "agent": (
        "CASE WHEN m.role LIKE 'agent:%' THEN substr(m.role, 7) "
        f"ELSE coalesce(nullif({_FIELD.format(name='agent')}, ''), m.role) END",
        "5 DESC, 3 + 4 DESC, 1",
    ),
    "day": ("substr(m.time, 1, 10)", "1"),
}


# The canonical dump: everything that depends only on files, HEAD, settings and model, so without ids and stamps.
DUMP_NOTES = """
SELECT 'note', path, kind, tier, title, date, session, importance, pinned, archived, local_only, front_matter, warnings,
       lower(hex(digest)), parsed_by, lower(hex(blob)), committed
FROM note ORDER BY path
"""
DUMP_HISTORY = "SELECT 'history', path, lower(hex(blob)), committed FROM history ORDER BY path"
DUMP_CHUNKS = """
SELECT 'chunk', n.path, c.ordinal, c.form, c.section, c.start_line, c.end_line, c.start_column, c.end_column,
       c.heading_path, c.role, c.origin, c.first_time, c.last_time, c.attributes, c.entries, lower(hex(c.opening)),
       c.word_rows, lower(hex(c.words)), lower(hex(p.hash))
FROM chunk c JOIN note n ON n.id = c.note LEFT JOIN passage p ON p.id = c.passage ORDER BY n.path, c.ordinal
"""
DUMP_TAGS = """
SELECT 'tag', n.path, c.ordinal, t.name FROM tag t JOIN chunk c ON c.id = t.chunk JOIN note n ON n.id = c.note
ORDER BY n.path, c.ordinal, t.name
"""
DUMP_LINKS = """
SELECT 'link', n.path, l.line, l.target, l.anchor, l.label, l.wiki FROM link l JOIN note n ON n.id = l.note
ORDER BY n.path, l.line, l.target, l.anchor, l.label
"""
DUMP_MESSAGES = """
SELECT 'message', n.path, m.ordinal, m.role, m.time, m.start_line, m.end_line, m.model, m.tokens_in, m.tokens_out,
       m.cost_nanos, m.attributes
FROM message m JOIN note n ON n.id = m.note ORDER BY n.path, m.ordinal
"""
DUMP_PASSAGES = "SELECT 'passage', lower(hex(hash)) FROM passage ORDER BY hash"
DUMP_VECTORS = """
SELECT 'vector', lower(hex(p.hash)), lower(hex(v.embedding)), lower(hex(c.value))
FROM vec_{space} v JOIN passage p ON p.id = v.rowid JOIN vector c ON c.passage = p.id AND c.space = {space}
ORDER BY p.hash
"""
