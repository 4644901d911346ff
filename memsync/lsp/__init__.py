"""The language server: notes in a text editor, by the Language Server Protocol over the operations of a memory."""
