"""Faults that simple edits do not make: each breaks one promise. By function and by a piece of its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.fault import Fault, Offsets, blocks, functions, modules, one_line

# (function, piece of its source, what stands there instead). A module's constants: the function is "".
WRITTEN: tuple[tuple[str, str, str], ...] = (
    ("age_in_days", "chunk.entries[0].time or chunk.note_date", "chunk.note_date or chunk.entries[0].time"),
    ("Anchor.anchor", "abs(new.start_line - chunk.start_line)", "new.start_line"),
    ("Anchor.anchor", "file.identity == chunk.identity", "file.identity[:2] == chunk.identity[:2]"),
    ("_anchored", "piece or key not in shown", "True"),
    (
        "Searcher._first",
        "_different(spans, anchor, limit), None",
        "_different(islice(spans, limit), anchor, limit), None",
    ),
    ("costs", "CITATION_TOKENS + cost", "cost"),
    ("prior_of", "2.0 * (chunk.importance - 0.5)", "chunk.importance"),
    ("names_tag", 'tag.startswith(f"{filter_tag}/")', "tag.startswith(filter_tag)"),
    ("entry_filter.allows", "entry.time or chunk.date", "chunk.date"),
    ("_plain", "farthest if scored.cosine is None else scored.cosine", "scored.cosine or 0.0"),
    ("_plain", "missing * farthest", "0.0"),
    ("_words", "if word not in STOP_WORDS] or words)", "if word not in STOP_WORDS])"),
    ("_is_dated", "(scored.entry.time or scored.chunk.date, *scored.entry.later)", "(scored.chunk.date,)"),
    ("Scored.telling_score", 'self.added.get("dated then", 0.0) + self.added.get("role", 0.0)', "0.0"),
    ("certainty", "math.log(min(len(ranked), _MANY) + _FEW)", "math.log(_FEW)"),
    ("certainty", "_SLOPE * math.log(max(score, _MIN_SCORE) / top)", "0.0"),
    (
        "likely_hits",
        "floor if query.request.min_score is None else query.request.min_score",
        "query.request.min_score or 0.0",
    ),
    ("by_words", "*ranked[:READ], ", ""),
    ("Wording._longest_run", "before.get(place - 1, 0.0) + self._exact[word]", "self._exact[word]"),
    ("_best_of_notes", "s.chunk.form != Form.HEADING, s.score", "s.score"),
    ("of_its_times", "filters.after or filters.before or", ""),
    ("Searcher._ranked", "and not pool.keyword", ""),
    ("time_hints", "if time.has_year]", "]"),
    ("_of_calendar", '-1 if match["last"]', '0 if match["last"]'),
    ("without_times", "if len(PLAIN_WORD.findall(left)) >= MIN_WORDS else text", ""),
    ("", "substr(c.role, 1, length(value) + 1) = value || ':'", "substr(c.role, 1, length(value)) = value"),
    ("", "substr({_FIRST}, 1, length(:before)) <= :before", "{_FIRST} <= :before"),
    ("", "substr({_LAST}, 1, length(:after)) >= :after", "substr({_FIRST}, 1, length(:after)) >= :after"),
    ("", "'unixepoch', 'localtime')", "'unixepoch')"),
    ("", "pinned = excluded.pinned,", "pinned = pinned,"),
    ("", "tier = excluded.tier,", "tier = tier,"),
    ("", "session = excluded.session,", "session = session,"),
    ("SqliteWriter._move_chunk", 'self._db.execute("DELETE FROM tag WHERE chunk = ?", (chunk_id,))', "pass"),
    ("SqliteWriter.delete_note", 'self._db.execute("DELETE FROM message WHERE note = ?", (note_id,))', "pass"),
    (
        "plan_sync",
        "[*_by_path(modified), *_by_path(added), *_by_path(deleted)]",
        "[*_by_path(deleted), *_by_path(modified), *_by_path(added)]",
    ),
    ("is_settled", "stamp[2] % 1_000_000", "stamp[1] % 1_000_000"),
    ("Indexer._still", "now[path] == parsed.stamp.identity", "now[path] is not None"),
    ("Indexer._read", "known.parsed_by == self._reader.parsed_by", "True"),
    ("Scanner.compare", "self.scanned_at <= called", "not self.scanned_at"),
    ("Scanner._is_another", "not self._has_notes_of(known)", "False"),
    ("Stillness.seconds", "self.state, self.since = state, now", "self.state = state"),
    ("_with_heading", "tokens > limits.max_tokens", "first.tokens > limits.max_tokens"),
    ("_Chunker._entry", "(0, *heading,", "(*heading,"),
    ("identity_of", "mtime_ns, info.st_ctime_ns, info.st_ino)", "mtime_ns, mtime_ns, info.st_ino)"),
    ("decode", "content.removeprefix(codecs.BOM_UTF8)", "content"),
    ("", "times = times + excluded.times", "times = excluded.times"),
    ("", "last = max(last, excluded.last)", "last = excluded.last"),
    ("UsageCounter.flush", 'self.fault = ""', "pass"),
    ("UsageCounter.forget", "SET query = NULL", "SET hits = 0"),
    ("UsageCounter._write", "_now(-KEEP_DAYS)", "_now()"),
    ("UsageCounter.searched", "text = query if self._keeps_queries else None", "text = query"),
    ("percentile", "math.ceil(len(ordered) * share) - 1", "int(len(ordered) * share) - 1"),
    ("append", "os.fstat(descriptor).st_size == size + written", "True"),
    ("swap", "elif not _holds(folder, path, aside, old):", "elif False:"),
    ("Journal.since", "AND replaced_by IS NULL ORDER BY id", "ORDER BY id"),
    ("Journal.undo", "SET replaced_by = NULL", "SET replaced_by = replaced_by"),
    ("RunRecords.steps", "ORDER BY run DESC", "ORDER BY run"),
    ("StateFile._current", "not os.path.samestat(status, self._file)", "False"),
    ("StateFile._connected", 'database.pragma("secure_delete", "on")', "pass"),
    ("StateFile.wipe", "database.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)", "pass"),
    ("Appending._overwritten", "any(abs(entry.at - moment) <= UNSEEN_SECONDS for moment in saved)", "True"),
    ("prune", "len(retirements) > kept * MAX_SHARE", "len(retirements) >= kept * MAX_SHARE"),
    ("is_kept_for_good", "note.archived or note.pinned or", "note.archived or"),
    ("prune", "sum(not note.archived for note in notes)", "len(notes)"),
    ("_App._check", "hmac.compare_digest(token, self._expected.encode())", "self._expected.encode().startswith(token)"),
    ("_App._check", "hmac.compare_digest(token, self._expected.encode())", "token.startswith(self._expected.encode())"),
    ("", 'HOST = "127.0.0.1"', 'HOST = "0.0.0.0"'),
    ("token_of", "{32,200}", "{0,200}"),
    ("Guard._check_source", '_header(request, "host").lower() not in self._hosts', "False"),
    ("Guard._check_source", '_header(request, "origin") in {"", *self._origins}', "True"),
    ("Guard._check_source", '("", "none", "same-origin")', '("", "none", "same-origin", "same-site")'),
    ("Guard._check_identity", 'and not _header(request, "origin")', "and False"),
    ("_header", '",".join(request.headers.getlist(name))', 'request.headers.get(name, "")'),
    ("Access.is_valid", "is_signed and int(expires) > clock.seconds()", "is_signed"),
    ("Access.is_valid", "is_signed and int(expires) > clock.seconds()", "int(expires) > clock.seconds()"),
    ("Access.take", "key = ? AND at BETWEEN ? AND ?", "key = ? AND ?2 < ?3"),
    ("Access.make_link", "at NOT BETWEEN ? AND ?", "?1 > ?2"),
    ("Site.run", "operation.changes(kwargs)", "operation.writes"),
    ("_call", "operation.changes(given)", "operation.writes"),
    ("WebServer.apply", "wanted == self._page and code is None", "wanted == self._page"),
    ("Events.leave", "self._listeners -= 1", "pass"),
    ("DaemonFaults.fault", "min(retry * 2, longest_retry)", "min(retry + 1, longest_retry)"),
    ("VectorKeeper.hanging", "seconds > HANGING_SECONDS", "False"),
    ("VectorKeeper.step", "self._health.mended(self._name)", "pass"),
    ("exit_code", "has_failed = result is not None", "has_failed = False"),
    ("_in_environment", ' and text != ""', ""),
    ("risky_settings", "value != without_file[name]", "False"),
    ("is_trusted", "now.items() <= trusted.items()", "True"),
    ("other_writer", "status.st_mode & stat.S_IWOTH", "False"),
    ("_check_files", "is_linked or status.st_uid != os.geteuid()", "status.st_uid != os.geteuid()"),
    ("own_folder", "mode & 0o077", "False"),
    ("from_text", '"0": False', '"0": True'),
    ("_folder", "os.path.isabs(named)", "named"),
)


def written_faults(package: Path) -> Iterator[Fault]:
    """Yield them all. Raises LookupError for one whose function or piece is not there, or is there twice."""
    everything = list(modules(package))
    for function, before, after in WRITTEN:
        found = [fault for path, source in everything for fault in _places(path, source, function, before, after)]
        if len(found) != 1:
            raise LookupError(f"tests/mutants/written.py: {len(found)} times in {function or 'modules'}: {before}")
        yield found[0]


def _places(path: str, source: bytes, function: str, before: str, after: str) -> Iterator[Fault]:
    if before.encode() not in source:
        return
    offsets, tree = Offsets(source), ast.parse(source)
    if not function:
        for statement in tree.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            names = tuple(target.id for target in targets if isinstance(target, ast.Name))
            if names:
                yield from _within(path, source, offsets.span(statement), "", before, after, "", names)
        return
    named = blocks(tree)
    for node, name in functions(tree):
        if name == function:
            span = offsets.span(node.body[0])[0], offsets.span(node.body[-1])[1]
            yield from _within(path, source, span, function, before, after, named[node.body[0].lineno], ())


def _within(
    path: str, source: bytes, span: tuple[int, int], function: str, before: str, after: str, block: str,
    names: tuple[str, ...],
) -> Iterator[Fault]:  # fmt: skip
    start = source.find(before.encode(), *span)
    while start >= 0:
        end = start + len(before.encode())
        yield Fault(
            path, function or "<module>", "written", one_line(before), one_line(after), start, end, after, block, names
        )
        start = source.find(before.encode(), end, span[1])
