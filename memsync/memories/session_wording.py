"""How people ask and decide, and how agents say what they found, in English and German: patterns for session notes.

The patterns were tried on sessions of many people. Pasted text is recognised by its form, not by its words.
"""

from __future__ import annotations

import re

# ------------------------------------------------------------------------------------------- the form

SENTENCE = re.compile(r"(?<=[^\d\s][.!?])\s+(?=[\W\d]{0,20}[A-ZÄÖÜ])")
ADDRESS = re.compile(r"\S*(?:://|/\S+/)\S*")
_SCRIPTS = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
WORD = re.compile(rf"[{_SCRIPTS}]{{2}}|[^\W\d_{_SCRIPTS}]{{2,}}")
"""In scripts without spaces two characters count as a word."""
NO_WORDS = re.compile(
    r"""(?:[>|<{}\]$]|--?[A-Za-z]|"[^"]*":|at \S+\(|\d+:\d\d"""
    r"""|(?:[\w./-]{1,60}:(?:\d+:)? )?(?:bug|fix|issue|error|warning|fatal|no such file[^:]*|command not found):)"""
    r"""|.*(?:[;{\\]$|"\}|\{"|":"|request_id|Error: \d{3})""",
    re.IGNORECASE,
)
"""Lines that are quoted, of a table, code, of a trace, or the labels of a review."""
MARKER = re.compile(r"^\s*(?:(?:[-*+•❯]|\d+[.)]|#{1,6}|\[[ xX]\])\s+|\[(?:image|screenshot)[^\]]*\]\s*)", re.IGNORECASE)
STRESS = re.compile(r"\*\*|__|`")
TEMPLATE = re.compile(r"^(?:#+ )?(?:user input|outline|goal)\s*$|\$ARGUMENTS", re.IGNORECASE | re.MULTILINE)
"""Parts of the text that an agent puts in the place of a command."""
INPUT = re.compile(r"^#+ user input\s*$", re.IGNORECASE)
"""The heading in it above what the user typed, which is in a fence."""

# ------------------------------------------------------------------------------------------- people

GENERIC = re.compile(
    r"^(?:/\w|!|#|(?:(?:can|could) (?:we|you) |please )*(?:continue|go on|go ahead|proceed|resume)|yes|yep|ok(?:ay)?"
    r"|thanks?|thank you|hi|hello|hey|next|do it|try again|what(?:'s| is| should (?:we|i) do) next|weiter|ja|danke"
    r"|hallo)\b.{0,25}$",
    re.IGNORECASE | re.DOTALL,
)
ASKS = re.compile(
    r"\?$|\b(?:(?:can|could|would|will) you|let'?s|help me|please|bitte|i(?:'d like| want| need)|we need|kannst du"
    r"|könntest du|ich (?:will|möchte|brauche))\b"
    r"|^(?:(?:and|now|then|ok|so|also|actually|no|wait|yes|just)[,.]? +)*(?:add|apply|build|change|check|clone|commit"
    r"|create|debug|deploy|draft|explain|export|find|fix|give me|go through|implement|improve|install|investigate|look"
    r"|make|merge|move|plan|port|proceed|push|read|refactor|release|remove|rename|replace|restart|review|rewrite|run"
    r"|set up|show|summari[sz]e|tell me|test|translate|try|update|upgrade|write"
    r"|(?:ändere?|baue?|behebe?|entferne?|ergänze?|erkläre?|erstelle?|finde?|füge?|führe?|mache?|prüfe?|schaue?|schreibe?"
    r"|teste?|zeige?))\b",
    re.IGNORECASE,
)
FIRMLY = re.compile(
    r"(?:^|[,;:.–—-] *|\b(?:please|you should|you must|we should|we must|but|and|so) )(?:always|never|only ever)\b"
    r"|\bmust(?:n't| not)?\b(?! (?:be (?:an?\b|the\b|some|one of|[\"'`])|have (?:been|had)))"
    r"|\b(?:from now on|i(?:'d)? (?:prefer|rather)|instead of|rather than|we(?:'ve| have)? (?:decided|agreed))\b"
    r"|^(?:no|nope|nein)\b(?:[,.!:;] +(?!it\b|i\b|still|there|the\b)| +(?:need|more|new|other|external))\w+ +\w+"
    r"|^(?:no|nein) +(?:remove|keep|use|do|leave|make|revert|go|stop|nimm|lass|mach)\b"
    r"|\b(?:niemals|ab jetzt|ab sofort|stattdessen|wir haben (?:uns )?(?:entschieden|beschlossen))\b"
    r"|\b(?:bitte|es) (?:immer|nie)\b|^(?:immer|nie)\b"
    r"|\b(?:muss|müssen|darf nicht|dürfen nicht|darf kein\w*|dürfen kein\w*)\b",
    re.IGNORECASE,
)
DECIDES = re.compile(
    r"^(?:(?:ok(?:ay)?|yes|ja|and|so|then|also|please|bitte|actually|just)[,.]? +)*"
    r"(?:use|keep(?! in mind| going)|prefer|avoid|stick|drop|go with|leave(?! an? )|choose|nimm|nutze?|verwende?"
    r"|benutze?|behalte?|vermeide?)\b"
    r"|(?:^|[,;:] *|\b(?:please|but|and|so) )(?:don't|do not|dont)\b(?! (?:know|see|think|understand|worry|get|have))"
    r"|\b(?:let's|lets|let us) (?:use|go with|keep|stick|not|leave|drop|stay|say|have|do)\b"
    r"|^(?:(?:hm+|ok(?:ay)?|so|then|right|alright|fine|great)\b[,.]* +)+we(?:'ll)?"
    r" (?:keep|do|use|go|take|drop|stay|leave|skip|put|start|stop)\b"
    r"|\bi (?:really )?(?:don't|do not) (?:want|like|need)\b|\bmy (?:aim|goal) is\b"
    r"|(?:^|[,;] *|\b(?:and|so|then|but) )we(?:'ll| will) (?!see|need to)\w+"
    r"|\b(?:it|that|this|they|there) (?:should|needs? to)\b(?! know)"
    r"|\bshould(?:n't| not| always| never| only)\b"
    r"|\b(?:lieber|lass uns|wir (?:nehmen|nutzen|verwenden|bleiben)|soll(?:te|ten|en)? (?:nicht|kein\w*|nur|immer))\b",
    re.IGNORECASE,
)
CHOICE = re.compile(
    r"^(?:(?:ok(?:ay)?|yes|let'?s|go|with|do|use|take|i|choose|pick|prefer|the|number|ja|nimm|wir|nehmen)[,.]? +)*"
    r"(?:(?:option|variante?|approach|plan) +)?(?P<name>\d|[a-d])[.)]?(?: (?:please|bitte|then))?[.!]?$",
    re.IGNORECASE,
)
"""An answer that names one of the options of the message before."""
HOW_MUCH = re.compile(r"\b(?:how (?:many|much|long|often)|wie (?:viele?|lange|oft))\b", re.IGNORECASE)
OPTION = r"\W{{0,6}}(?:option|variante?|approach|plan)?\s*{}(?:[.):]|\*\*| [–—-])\W*(?=\w)"
QUESTION = re.compile(r"“[^”]+”")
"""How a conversation has a question that the agent asked by a tool; the next message is the answer."""
REPORTS = re.compile(
    r"\b(?:it seems|seems like|still can(?:not|'t)|maybe|not sure|i guess|i think it|none of|previously|i thought)\b|"
    r"\b(?:but|and|yet|aber) (?:it |this |that |i |es )?"
    r"(?:doesn't|does not|isn't|is not|didn't|did not|still|shows?|geht)\b",
    re.IGNORECASE,
)
"""Sentences that report an error ("it should …, but it doesn't") or guess. They decide nothing."""
PASSING_BY = re.compile(
    r"^(?:(?:so|and|but|ok(?:ay)?)[,.]? +)*(?:why|what|how|when|where|who|which|can|could|would|give me|tell me)\b"
    r"|\byet\b|\b(?:any|other) (?:\w+ )?(?:changes|files)\b|\bthis session\b",
    re.IGNORECASE,
)
"""Questions without their mark, and what holds for a moment."""
GO_AHEAD = re.compile(
    r"(?:yes|no|ok|done|proceed|start|continue|generate|let'?s|work on|you decide|either|next|ja|nein)\b", re.IGNORECASE
)
"""Answers to the agent's questions that only say what to do next."""
REVIEWS = re.compile(r"consider\b", re.IGNORECASE)
"""How the lines of a review begin that leave the decision to its reader."""
STILL_WRONG = re.compile(
    r"\b(?:still (?:doesn't|does not|not|fails?|failing|broken|the same|happens|happening|wrong|getting)"
    r"|same (?:error|issue)|didn't (?:help|work|fix)|doesn't work|not working"
    r"|(?:geht|funktioniert) (?:immer noch )?nicht)\b",
    re.IGNORECASE,
)
# ------------------------------------------------------------------------------------------- agents

LEARNT = re.compile(
    r"\b(?:(?:root cause|culprit|ursache)(?= was| is| war| ist| of| des| der|:)"
    r"|(?:the|this) (?:actual |real |main |root |core |key )?(?:problem|issue|cause|bug|reason)"
    r" (?:was|is|turned out|came)|it turn(?:s|ed) out (?:that|the)|(?:was|were) caused by|fail(?:s|ed) because"
    r"|that's why (?=\w+ \w+ )|(?:issue|problem|cause|bug) is clear:"
    r"|the fix was (?:to|an?)|fixed (?:it )?with|fixed .{0,60}\bby \w+ing|das problem (?:war|ist)|lag daran"
    r"|(?:fehler|ursache|problem) liegt (?:im|in|am|an|daran)|der fehler (?:war|lag|ist))\b"
    r"|^(?:the )?(?:bug|cause|correction|what happened):",
    re.IGNORECASE,
)
UNSURE = re.compile(
    r"\b(?:let me|i'll|i will|might|may be|maybe|perhaps|probably|likely|seems?|appears?|could be|whether"
    r"|if (?:the|it|that|this|you)|check|vielleicht|vermutlich|wahrscheinlich)\b|\?",
    re.IGNORECASE,
)
WITHDRAWS = re.compile(
    r"^(?:wait|hmm)\b|\b(?:earlier|previous|first|initial) (?:diagnosis|theory|claim|assumption|conclusion)"
    r" (?:was|is) wrong|\bi was wrong\b|\bcorrect myself\b|\bwrong root cause\b",
    re.IGNORECASE,
)
LEFT_OPEN = re.compile(
    r"\b(?:next steps?|still (?:needs?|to do|open|missing|fails?|have to)|remaining|not (?:yet|done|implemented)"
    r"|left to do|left for you|follow-?ups?|todo|you(?:'ll| will)? (?:still )?need to(?! know)|unfixed|unfinished"
    r"|loose ends?|filed as|nothing (?:is )?(?:committed|pushed)|before (?:submitting|merging|deploying|releasing)"
    r"|noch (?:offen|nicht|zu tun)|fehlt noch|als nächstes|nächste schritte)\b",
    re.IGNORECASE,
)
OFFERS = re.compile(
    r"\b(?:want me to|should i|shall i|would you like me|do you want|soll ich|möchtest du|wenn du willst)\b",
    re.IGNORECASE,
)
SUCCEEDED = re.compile(r"\b(?:success\w*|without (?:issues|errors|problems)|no (?:syntax )?errors?)\b", re.IGNORECASE)
NOTHING = re.compile(
    r"^(?:none|nothing|no (?:pending|remaining|open|major|errors?)|all (?:tasks|done))\b", re.IGNORECASE
)

# ------------------------------------------------------------------------------------------- summaries

PARTS_OF_SUMMARY = {
    "decided": re.compile(r"user preferences|user feedback|decisions", re.IGNORECASE),
    "learnt": re.compile(r"errors? and fix|lessons", re.IGNORECASE),
    "open": re.compile(r"pending tasks|open (?:tasks|questions)|next step|remaining", re.IGNORECASE),
}
OF_USER = re.compile(r"\buser (?:explicitly )?(?:clarified|insisted|prefers)\b", re.IGNORECASE)
HEADING = re.compile(r"^(?:#{1,6} +|\d+[.)] +)(?:\*\*)?(?P<title>[^:*\n]{3,60})(?:\*\*)?:?(?:\*\*)?\s*$")

# ------------------------------------------------------------------------------------------- tools

TOOL = re.compile(r"^> (?P<name>\S+) (?P<given>.*)$")
WRITES = re.compile(r"edit|write|patch|replace|create|update_file|insert", re.IGNORECASE)
FILE = re.compile(
    r'"(?:file_?path|filePath|path|target_file|notebook_path)": *"((?:[^"\\]|\\.)+)"'
    r"|\*\*\* (?:Add|Update|Delete) File: (.+?)(?= @@| [+-]| \*\*\* |\\n|\"|$)"
)
PASSING = re.compile(r"/\.\w+/(?:plans|projects|memories|todos)/|^/tmp/[^/]*$|(?:^|/)scratchpad/|\.patch$")
"""Plans and notes of the agent's own, and what it writes for a moment."""
COMMIT = re.compile(
    r"\bgit(?: -C \S+| --?[\w-]+=\S+)* commit\b[^|;&\n]*? (?:-\w*m|--message|-F)[ =]"
    r"(?:(?:\"\$\(cat |- ?)<<-? ?['\"\\]*\w+['\"]*\s+(?P<here>[^\n]+)|\"(?P<double>[^\"\n]+)|'(?P<single>[^'\n]+))"
)
MINOR = re.compile(r"^\W*(?:docs|style|chore|test|ci)\b(?!.*\brelease\b)", re.IGNORECASE)
MADE_UP = re.compile(r"[$`]|^\W*$")
"""A message or a name that the shell completes."""
CUT = re.compile(r"… \(\d[\d,]* characters\)$")
"""How conversations have an argument that is too long."""
TASK_LIST = re.compile(r"todo|plan", re.IGNORECASE)
TASK = re.compile(
    r'\{(?=[^{}]*"(?:content|step|title|description)": *"(?P<text>(?:[^"\\]|\\.)+)")'
    r'[^{}]*"status": *"(?P<status>\w+)"[^{}]*'
)
DONE = ("completed", "done", "cancelled")
