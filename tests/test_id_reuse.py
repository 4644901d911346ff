"""Drop into tests/test_vectors.py. Fails on the tree as it is: 1 passage neither with vector nor pending."""
from tests.index_checks import assert_sound, database


def test_a_passage_whose_id_was_anothers_gets_its_vector(memory, embedder, write):
    """A note is deleted while it is embedded; SQLite gives the next new passage the old one's id."""
    write("a.md", "The heron nests.\n")
    memory.sync()
    path = write("b.md", "The eel swims far away.\n")
    embed = embedder.embed_passages

    def replaced_meanwhile(texts, pause=lambda: None):
        embedder.embed_passages = embed
        found = embed(texts, pause)
        path.unlink()
        memory.syncer.refresh()
        write("c.md", "The ketch sails.\n")
        memory.syncer.refresh()
        return found

    embedder.embed_passages = replaced_meanwhile
    memory.sync()
    memory.sync()
    assert_sound(database(memory))
