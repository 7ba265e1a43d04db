"""Words that the project used once and no longer does: what to say instead."""
import re

# in a message, "%u slot%s"
PLURALS = r"(?:slot|task|port|GPU|node|job|restart|second|byte|file)%"

# whole words of identifiers, comments, messages and pages
EVERYWHERE = {
    "stranger": "foreign listener (of a port), unauthenticated (of a peer)",
    "strangers": "foreign listeners",
    "seat": "slot", "seats": "slots",
    "tenure": "epoch (of a maintainer), run terms (of a process)",
    "errand": "request", "errands": "requests",
    "benched": "cooldown", "predecessor": "previous incarnation",
    "guests": "remote job logs", "pulse": "heartbeat", "latch": "blocker",
    "fate": "outcome", "fates": "outcomes", "doors": "bind windows", "vacate": "hand over",
}
# whole words of identifiers alone, which prose may need
IDENTIFIERS = {
    "told": "reported", "tell": "report", "heard": "received", "hear": "receive", "door": "bind window",
    "guest": "remote job logs", "avoided": "cooldown", "strikes": "missed heartbeats", "admit": "open the bind window",
    "bulk": "low priority", "crowded": "foreign listener", "blamed": "cause", "dragged": "consequence",
    "somebody": "submitter, requester or owner", "whoever": "submitter, requester or owner",
}
PART = re.compile(r"[a-z]+|[A-Z][a-z]+|[A-Z]+(?![a-z])")


def of_identifier(name):
    """[(word, what to say)] of the retired words in an identifier."""
    return [(part, (EVERYWHERE | IDENTIFIERS)[part]) for part in map(str.lower, PART.findall(name))
            if part in EVERYWHERE or part in IDENTIFIERS]


def of_text(text):
    """[(offset, word, what to say)] of the retired words in prose."""
    return [(found.start(), found[0], EVERYWHERE[found[0].lower()])
            for found in re.finditer(rf"\b(?:{'|'.join(EVERYWHERE)})\b", text, re.I)]
