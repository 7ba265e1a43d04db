"""The messages follow PostgreSQL's error style guide, as far as a machine can see that.

A message is a lower-case phrase without a full stop; names and paths in it stand in double quotes. What a message
says, and how well, is for a reader of doc/reference/messages.md.

Usage: message_style.py SOURCE_ROOT
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1])
del sys.argv[1:]
sys.path[:0] = [str(ROOT / "doc/reference"), str(ROOT / "test/check")]
import messages  # noqa: E402
import terms  # noqa: E402

# words that begin with a capital wherever they stand
NAMES = r"(?:[A-Z][A-Z0-9_]+s?\b|TensorFlow|TensorBoard|Python|Zip64|Ctrl-C|Linux|Noise)"
CONVERSION = r"%[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z)?[diouxXcsfgp]"
# texts and paths of others; ids, node names and task names need no quotes
QUOTED = (r"(?:cannot (?:open|read|write|create|remove|lock|sync|watch|follow|stat|enter)|file|directory|path|address|"
          r"label|upstream|user|group|program|socket) %(?:\.\d+|\.\*)?s")

RULES = (
    ("begins with a capital letter", rf"^(?!{NAMES})[A-Z]"),
    ("ends with a full stop", r"[^.]\.$"),
    ("has an exclamation mark", r"(?<!#)!(?!=)"),
    ("has two spaces", r"\S  +\S"),
    ("addresses or excuses", r"\b(?:please|sorry|oops|unfortunately|(?<!did )you|your|we|our|I)\b"),
    ("has a contraction", r"\b\w+(?:n't|'re|'ve|'ll|'d)\b|\b(?:it|that|there|what)'s\b"),
    ("does not say \"cannot\"", r"\b(?:failed to|unable to|can not)\b|^could not\b"),
    ("names no argument", r"^invalid (?:argument|value|option|parameter|request)s?$"),
    ("quotes with other marks than \"\"", rf"['‘’“”]{CONVERSION}|{CONVERSION}['’”](?!s\b| )"),
    ("does not quote a name or a path", QUOTED),
    # "slot%s" takes an "s"; the three that end in a blank or are empty are parts of a sentence
    ("has a word glued to its argument", rf"(?<!%){CONVERSION}(?!is left|in %|a number)[a-zA-Z]+|(?<![%\w])(?!{terms.PLURALS})\w{{2,}}%[-.\d*]*s(?!%|$)"),
    ("says \"is no\" for \"is not a\"", r"\bis no (?!longer)|\bnone has\b|\bnobody\b"),
    ("says \"any more\" for \"no longer\"", r"\bany ?more\b"),
)


def errors():
    """What fills an error, an event or the log; help texts have line ends and headings, and what is sought in output
    of others is in tables."""
    for message in messages.collect(ROOT):
        is_of_tool = message.path.parts[0] == "examples"
        is_heading = message.text[:1].isupper() and (is_of_tool or not message.calls)
        if "\n" not in message.text and not is_heading:
            yield message


class MessageStyleTest(unittest.TestCase):
    maxDiff = None

    def test_each_message_keeps_the_rules(self):
        faults = [f'{message.path}:{message.line}: {why}: "{messages.show(message.text)}"'
                  for message in errors() for why, pattern in RULES if re.search(pattern, message.text)]
        self.assertEqual([], faults)

    def test_each_rule_finds_its_fault(self):
        for text, why in (("Cannot open it", "capital"), ("cannot open it.", "full stop"), ("no memory!", "exclamation"),
                          ("no  memory", "two spaces"), ("please try again", "excuses"), ("don't", "contraction"),
                          ("failed to open it", "cannot"), ("invalid argument", "names no argument"),
                          ("user '%s'", "marks"), ("cannot open %.200s", "quote"), ("job%sfile", "glued"),
                          ("it is no list", "is no"), ("not held any more", "any more")):
            self.assertIn(why, " ".join(rule for rule, pattern in RULES if re.search(pattern, text)), text)
        for text in ('cannot open "%s": %s', "TF_CONFIG is too long", "%u slot%s of node %s", "GPUs are missing"):
            self.assertEqual([], [rule for rule, pattern in RULES if re.search(pattern, text)], text)


if __name__ == "__main__":
    unittest.main()
