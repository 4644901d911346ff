"""The pages of the web UI: forms and links that work without JavaScript, and the same as JSON."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Route

from memsync.web.pages import history, lists, note, pictures, search, upkeep
from memsync.web.pages.view import error_page as error_page


class _AnyPath(PathConvertor):
    regex = "(?s:.*)"  # a name may have a line end


register_url_convertor("note", _AnyPath())
PAGES = {
    "/notes": lists.notes,
    "/threads": lists.threads,
    "/log": lists.log,
    "/memory": lists.memory,
    "/upkeep": upkeep.upkeep,
    "/history": history.history,
    "/changes": history.changes,
    "/usage": lists.usage,
    "/recalls": lists.recalls,
    "/health": lists.health,
    "/help": lists.help_page,
}


def routes() -> list[Route]:
    """Return the routes of the pages; each but the first also with `.json`."""
    named = [Route(f"{path}{ending}", view) for path, view in PAGES.items() for ending in ("", ".json")]
    return [
        Route("/", search.search),
        Route("/search.json", search.search),
        Route("/note/{path:note}", note.note),
        Route("/file/{path:note}", pictures.picture),
        Route("/history/{path:note}", history.history),
        Route("/blame/{path:note}", history.blame),
        Route("/upkeep/{number:int}", upkeep.decide, methods=["POST"]),
        *named,
    ]
