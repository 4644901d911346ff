"""The MCP server (Model Context Protocol): it offers a memory's operations as tools and its notes as resources."""
