"""Limits of memory and CPU time with the kernel's own cgroup v2, on a machine that has bound the memory
controller to cgroup v1: in a virtual machine, of which the host's files are the root directory. It
needs QEMU with virtiofsd, a static busybox, and the unpacked Debian package of a kernel
(-Dvm_kernel=DIRECTORY). QEMU emulates the processor, so it needs no permission."""
import glob
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
KERNEL = os.environ["TFC_VM_KERNEL"]
VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
MODULES = ["virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "fuse",
           "virtiofs", "overlay"]
DIRS = ["bin", "proc", "modules", "host", "upper", "root", "dev"]
PATIENCE = 120


def archive(files):
    """An initial file system: a cpio archive of the format "newc" (cpio(5))."""
    def entry(name, mode, data=b""):
        fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = ("070701" + "".join(f"{field:08x}" for field in fields) + name + "\0").encode()
        return b"".join(part + bytes(-len(part) % 4) for part in (head, data))
    dirs = [entry(name, 0o40755) for name in DIRS]
    return b"".join([*dirs, *(entry(name, 0o100755, data) for name, data in files.items()),
                     entry("TRAILER!!!", 0)])


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def module(name):
    return read(glob.glob(f"{KERNEL}/lib/modules/*/kernel/**/{name}.ko", recursive=True)[0])


def missing():
    if not KERNEL or not glob.glob(f"{KERNEL}/boot/vmlinuz-*"):
        return "no kernel in -Dvm_kernel=DIRECTORY"
    for program in "qemu-system-x86_64", "busybox", VIRTIOFSD:
        if not shutil.which(program):
            return f"{program} is not installed"
    if os.uname().machine != "x86_64" or os.geteuid() != 0:
        return "only root on x86-64 can share the host's files"
    return None


class CgroupTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tfc-vm-")
        self.addCleanup(shutil.rmtree, self.dir)

    def boot(self, script):
        """The output of a virtual machine that runs the script and powers off."""
        initial, socket = f"{self.dir}/initial", f"{self.dir}/socket"
        with open(initial, "wb") as file:
            file.write(archive({"init": read(HERE, "init"), "guest.sh": script.encode(),
                                "bin/busybox": read(shutil.which("busybox")),
                                "modules/order": "\n".join(MODULES).encode(),
                                **{f"modules/{name}": module(name) for name in MODULES}}))
        files = subprocess.Popen([VIRTIOFSD, f"--socket-path={socket}", "-o", "source=/", "-o", "sandbox=chroot"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            while "Waiting for vhost-user socket connection" not in files.stderr.readline():
                self.assertIsNone(files.poll(), "virtiofsd ended")
            return subprocess.run(
                ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                 "-machine", "q35,accel=tcg,memory-backend=memory", "-cpu", "max", "-smp", "2", "-m", "2G",
                 "-object", "memory-backend-memfd,id=memory,size=2G,share=on",
                 "-chardev", f"socket,id=files,path={socket}", "-device", "vhost-user-fs-pci,chardev=files,tag=host",
                 "-kernel", glob.glob(f"{KERNEL}/boot/vmlinuz-*")[0], "-initrd", initial,
                 "-append", "console=ttyS0 quiet panic=-1", "-serial", "stdio"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=PATIENCE).stdout
        finally:
            files.kill()
            files.communicate()

    def test_limits_are_in_force(self):
        names = [name for name in os.environ if name.startswith("TFC_TEST_")]
        env = "".join(f"export {name}={shlex.quote(os.environ[name])}\n" for name in
                      ["TESTS", "TFC_HELPER_DIR", *names])
        output = self.boot(env + read(HERE, "guest.sh").decode())
        if "guest: exit status 0" not in output:
            self.fail(output)


if __name__ == "__main__":
    if missing():
        print(f"skipped: {missing()}")
        sys.exit(77)
    unittest.main(verbosity=2)
