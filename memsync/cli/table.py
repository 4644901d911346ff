"""The commands. `make reference` writes this table, so that no command is loaded before it is called."""

# fmt: off
COMMANDS = {
    "Set up": {"agents": ["cli.command_agents"], "completion": ["cli.command_setup"], "config":
        ["cli.command_setup"], "doctor": ["cli.command_setup"], "http": ["cli.command_web"], "init":
        ["cli.command_setup"], "mcp": ["cli.command_mcp"], "roots": ["cli.command_roots"], "trust":
        ["cli.command_setup"], "web": ["cli.command_web"]},
    "Search": {"blame": ["features.history"], "context": ["features.context.compose"], "diff":
        ["features.difference"], "digest": ["features.difference"], "get": ["features.search"], "history":
        ["features.history"], "links": ["features.linking"], "open": ["cli.command_open"], "search":
        ["cli.command_search"]},
    "Notes": {"collections": ["features.listing"], "log": ["features.log"], "mv": ["features.moving"], "note":
        ["features.listing", "features.log"], "pattern": ["features.patterns"], "pref":
        ["cli.command_composed", "features.preferences"], "recover": ["cli.command_composed"], "remember":
        ["features.log"]},
    "Conversations": {"costs": ["features.threads"], "export": ["cli.command_exchange"], "handoff":
        ["features.threads"], "hook": ["cli.command_recall"], "import": ["cli.command_exchange"], "ingest":
        ["cli.command_exchange"], "recall": ["cli.command_recall"], "routes": ["features.threads"], "runs":
        ["features.threads"], "sessions": ["features.threads"], "thread": ["features.threads"]},
    "Upkeep": {"check": ["features.checking"], "contradictions": ["features.contradictions"], "curate":
        ["features.curation.proposals"], "duplicates": ["features.duplicates"], "eval": ["cli.command_eval"],
        "forget": ["cli.command_forget"], "proposals": ["features.curation.proposals"], "prune":
        ["features.pruning"], "stale": ["features.usage"], "stats": ["features.usage"]},
    "Index": {"index": ["cli.command_index"], "rebuild": ["features.indexing"], "status": ["features.indexing"],
        "sync": ["features.indexing"], "vectors": ["cli.command_vectors"], "verify": ["features.indexing"]},
    "Daemon": {"logs": ["cli.command_daemon"], "restart": ["cli.command_daemon"], "service":
        ["cli.command_daemon"], "start": ["cli.command_daemon"], "stop": ["cli.command_daemon"], "watch":
        ["cli.command_daemon"]},
}
"""Section -> the first words of its commands -> the modules that have them."""
SERVED = {"blame": "", "collections": "", "context": "query", "costs": "", "get": "location", "handoff": "", "links":
        "", "log": "", "note": "", "pattern": "", "pref": "", "proposals": "", "remember": "", "routes": "",
        "runs": "", "search": "query", "sessions": "", "stale": "", "stats": "", "status": "", "thread": ""}
"""The first words of short commands, which a daemon runs -> the parameter with which several memories can be asked."""
WRITING = ["log", "note", "pattern", "pref", "proposals", "remember", "thread"]
"""Those of SERVED that write."""
