"""The completion of tfc_run in a real shell, with keys that are pressed at a terminal.

usage: shell_test.py bash|zsh|fish
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import sys
import time

import clients_test
import harness

SHELL = sys.argv.pop(1)
BEGIN = {  # what is typed first: tfc_run shows its arguments, unless the shell asks it for candidates
    "bash": (["--norc", "--noprofile", "-i"],
             "PS1='ready''> '; bind 'set enable-bracketed-paste off'; source <(tfc_run completion bash); {function}"),
    "zsh": (["-f", "-i"],
            "unsetopt zle_bracketed_paste 2>/dev/null; PS1='ready''> '; autoload -U compinit; compinit -u -D; "
            "source <(tfc_run completion zsh); {function}"),
    "fish": (["--no-config", "-i"],
             "tfc_run completion fish | source; "
             "function fish_prompt; printf ready'> '; end; "
             "function tfc_run; if test \"$argv[1]\" = --complete; command tfc_run $argv; "
             "else; printf 'GOT<%s>' $argv; echo; end; end"),
}
FUNCTION = ("tfc_run() { if [ \"$1\" = --complete ]; then command tfc_run \"$@\"; "
            "else printf 'GOT<%s>' \"$@\"; echo; fi; }")
ESCAPES = re.compile(r"\x1b(\[[0-9;?>=]*[a-zA-Z]|[\]P_^][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-Z]|[=>])")


class Shell:
    def __init__(self, env, cwd):
        arguments, begin = BEGIN[SHELL]
        self.text = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(SHELL, [SHELL, *arguments], env)
        self.type(begin.format(function=FUNCTION) + "\n")
        self.await_text(r"ready> ")

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def await_text(self, pattern):
        """Returns the match, and forgets what was shown up to its end."""
        end = time.monotonic() + harness.PATIENCE
        while not (found := re.search(pattern, self.text)):
            if time.monotonic() > end:
                raise AssertionError(f"never showed {pattern!r}: {self.text!r}")
            if select.select([self.terminal], [], [], 0.2)[0]:
                self.text += os.read(self.terminal, 1 << 16).decode(errors="replace")
                self.text = ESCAPES.sub("", self.text)
        self.text = self.text[found.end():]
        return found

    def complete(self, keys):
        """The arguments of tfc_run after `keys`, of which a tab completes."""
        self.type(keys + "\n")
        shown = self.await_text(r"(?m)^((?:GOT<[^>]*>)+)\r*\n").group(1)
        self.await_text("ready> ")
        return re.findall("GOT<([^>]*)>", shown)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


class ShellTest(clients_test.ClientsTest):
    def test_a_tab_completes(self):
        programs = pathlib.Path(self.dir, "programs")
        programs.mkdir()
        (programs / "tfc_run").symlink_to(harness.TFC_RUN)
        (programs / "only-this-program").symlink_to("/bin/true")
        pathlib.Path(self.dir, "unique-directory").mkdir()
        self.write("unique-file.json", "{}")
        self.write("with a blank.json", "{}")
        jobs = [self.start_job("sleep 60", "--name", name) for name in ("digits", "part:one")]
        env = dict(self.env, PATH=f"{programs}:{self.env['PATH']}", TFC_GATEWAY=self.gateway("a")[1], TERM="dumb",
                   XDG_RUNTIME_DIR=self.dir)
        shell = Shell(env, self.dir)
        try:
            self.check(shell)
        finally:
            shell.close()
        for job in jobs:
            self.assertEqual(self.ask("stop", job, "--wait").status, 0)

    def check(self, shell):
        for keys, expected in (
                ("tfc_run memb\t--js\t", ["members", "--json"]),
                ("tfc_run ps --al\t", ["ps", "--all"]),
                ("tfc_run local --color=al\ttrue", ["local", "--color=always", "true"]),
                ("tfc_run local --color al\ttrue", ["local", "--color", "always", "true"]),
                ("tfc_run keygen --role=su\tf", ["keygen", "--role=submit", "f"]),
                ("tfc_run local --job=unique-f\t", ["local", "--job=unique-file.json"]),
                ("tfc_run local --job unique-f\t", ["local", "--job", "unique-file.json"]),
                ("tfc_run local --job with\t", ["local", "--job", "with a blank.json"]),
                ("tfc_run local --cwd uni\ttrue", ["local", "--cwd", "unique-directory/true"]),
                ("tfc_run local only-this-p\tunique-f\t", ["local", "only-this-program", "unique-file.json"]),
                ("tfc_run describe di\t--js\t", ["describe", "digits", "--json"]),
                ("tfc_run stop part\t", ["stop", "part:one"]),
                ("tfc_run stop part:\t", ["stop", "part:one"]),
                ("tfc_run logs digits work\t-f", ["logs", "digits", "worker/0", "-f"]),
                ("tfc_run completion fi\t", ["completion", "fish"])):
            with self.subTest(keys=keys):
                self.assertEqual(shell.complete(keys), expected)


if __name__ == "__main__":
    if not shutil.which(SHELL):
        sys.exit(77)
    harness.main()
