"""The commands. `make reference` writes this table, so that no command is loaded before it is called."""

# fmt: off
COMMANDS = {
    "Set up": {"completion": ["cli.command_setup"], "config": ["cli.command_setup"], "doctor":
        ["cli.command_setup"], "http": ["cli.command_web"], "init": ["cli.command_setup"], "lsp":
        ["cli.command_lsp"], "mcp": ["cli.command_mcp"], "roots": ["cli.command_roots"], "trust":
        ["cli.command_setup"], "uninstall": ["cli.command_uninstall"], "web": ["cli.command_web"]},
    "Search": {"context": ["features.context.compose"], "get": ["features.search"], "links": ["features.linking"],
        "open": ["cli.command_open"], "search": ["cli.command_search"]},
    "Notes": {"collections": ["features.listing"], "log": ["features.log"], "mv": ["features.moving"], "note":
        ["features.listing", "features.log"], "pattern": ["features.patterns"], "pref":
        ["cli.command_composed", "features.preferences"], "recover": ["cli.command_composed"], "remember":
        ["features.log"], "share": ["features.sharing.share"]},
    "History": {"history": ["features.difference", "features.history"]},
    "Conversations": {"ingest": ["cli.command_exchange"], "thread": ["cli.command_exchange", "features.threads"]},
    "Agents": {"agents": ["cli.command_agents"], "hook": ["cli.command_recall"], "recall":
        ["cli.command_recall"]},
    "Upkeep": {"check": ["features.checking"], "contradictions": ["features.contradictions"], "curate":
        ["features.curation.proposals"], "duplicates": ["features.duplicates"], "eval": ["cli.command_eval"],
        "forget": ["cli.command_forget"], "proposals": ["features.curation.proposals"], "prune":
        ["features.pruning"], "stale": ["features.usage"], "stats": ["features.usage"]},
    "Index": {"index": ["cli.command_index", "cli.command_vectors", "features.indexing"], "status":
        ["features.indexing"], "sync": ["features.indexing"]},
    "Daemon": {"daemon": ["cli.command_daemon"]},
}
"""Section -> the first words of its commands -> the modules that have them."""
SERVED = {"collections": "", "context": "query", "get": "location", "history blame": "", "links": "", "log": "",
        "note list": "", "note new": "", "pattern list": "", "pattern observe": "", "pref get": "",
        "pref list": "", "pref set": "", "proposals accept": "", "proposals edit": "", "proposals list": "",
        "proposals reject": "", "proposals show": "", "proposals undo": "", "remember": "", "search": "query",
        "stale": "", "stats": "", "status": "", "thread append": "", "thread archive": "", "thread costs": "",
        "thread handoffs": "", "thread list": "", "thread new": "", "thread resume": "", "thread routes": "",
        "thread runs": "", "thread sessions": "", "thread show": ""}
"""The short commands, which a daemon runs -> the parameter with which several memories can be asked."""
WRITING = ["log", "note new", "pattern observe", "pref set", "proposals accept", "proposals edit", "proposals reject",
        "proposals undo", "remember", "thread append", "thread archive", "thread new", "thread resume"]
"""Those of SERVED that write."""
