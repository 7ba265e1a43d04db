# Stands in front of PYTHONPATH of tasks whose Python stacks may be requested: registers the dump,
# then steps aside for the sitecustomize that it hides. Whatever fails here, the program must run.
import sys


def _prepare():
    try:
        import faulthandler
        faulthandler.register(58, file=2, all_threads=True, chain=False)
    except Exception:
        pass


def _step_aside():
    import os
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    try:
        from _frozen_importlib_external import PathFinder
        from _frozen_importlib import module_from_spec
        spec = PathFinder.find_spec("sitecustomize", sys.path)
    except Exception:
        return
    if spec is None or spec.loader is None:
        return
    ours = sys.modules.get("sitecustomize")
    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules["sitecustomize"] = ours
        raise


_prepare()
_step_aside()
