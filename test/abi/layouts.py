"""Structs only grow at their end: each field of the older description is in the newer one, with the
same name, offset and type. abidiff cannot say it: once told to let structs grow, it lets a grown one
change elsewhere, too.

Usage: layouts.py OLD.abi NEW.abi
"""
import sys
import xml.etree.ElementTree as xml


class Description:
    def __init__(self, path):
        root = xml.parse(path).getroot()
        self.types = {element.get("id"): element for element in root.iter() if element.get("id")}
        self.structs = {element.get("name"): self.fields(element)
                        for element in root.iter("class-decl") if element.find("data-member") is not None}

    def fields(self, struct):
        return [(member.find("var-decl").get("name"), int(member.get("layout-offset-in-bits")),
                 self.name(member.find("var-decl").get("type-id")))
                for member in struct.findall("data-member")]

    def name(self, type_id):
        """The type in words, without ids, which differ from build to build."""
        element = self.types[type_id]
        below = element.get("type-id")
        match element.tag:
            case "pointer-type-def":
                return self.name(below) + " *"
            case "qualified-type-def":
                return self.name(below) + " const"
            case "array-type-def":
                return f"{self.name(below)} [{element.get('size-in-bits')} bits]"
            case "function-type":
                parameters = [self.name(p.get("type-id")) for p in element.findall("parameter")]
                result = self.name(element.find("return").get("type-id"))
                return f"{result} ({', '.join(parameters)})"
        return element.get("name")


def differences(old, new):
    for struct, fields in sorted(old.structs.items()):
        now = new.structs.get(struct)
        if now is None:
            yield f"{struct}: gone"
            continue
        for i, (was, offset, kind) in enumerate(fields):
            if i >= len(now) or now[i] != (was, offset, kind):
                have = "nothing" if i >= len(now) else "'{0}' at bit {1}, {2}".format(*now[i])
                yield f"{struct}: where '{was}' was at bit {offset}, {kind}, there is {have}"
                break


def main(old, new):
    found = list(differences(Description(old), Description(new)))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
