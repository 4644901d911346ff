"""The memory for MCP clients (Model Context Protocol): tools and resources over what `memsync.memory_api` offers."""
