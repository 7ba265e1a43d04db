"""Every public function is called by a sweep that lets its allocations fail one after the other, or
is listed below with the reason why none can.

A sweep marks what it calls: SWEPT(tfc_x), see test/lib/failing_malloc.h.

Usage: sweeps.py SOURCE_ROOT
"""
import pathlib
import re
import sys

# Function, or its end behind a *: why no allocation of it can fail.
ALLOCATES_NOTHING = {
    "*_init": "fills the caller's struct",
    "*_name": "gives a constant string",
    "tfc_err_text": "gives a constant string",
    "tfc_version": "gives a number",
    "tfc_features": "gives a number",
    "tfc_free": "frees",
    "*_free": "frees",
    "*_close": "frees, and commands the guard without an allocation unless its socket is full",
    "tfc_port_hold_release": "frees",
    "*_release": "frees",
    "tfc_allocation_describe": "gives what is there",
    "tfc_allocation_node": "gives what is there",
    "tfc_feed_batch_bytes": "gives what is there",
    "tfc_feed_batch_column": "gives what is there",
    "tfc_feed_batch_column_count": "gives what is there",
    "tfc_feed_batch_is_last": "gives what is there",
    "tfc_feed_batch_keep": "counts",
    "tfc_feed_batch_offset": "gives what is there",
    "tfc_feed_batch_partition": "gives what is there",
    "tfc_feed_batch_rows": "gives what is there",
    "tfc_feed_batch_window_bytes": "gives what is there",
    "tfc_feed_consumer_granted": "gives what is there",
    "tfc_feed_consumer_is_flushed": "gives what is there",
    "tfc_feed_consumer_next": "gives what is there",
    "tfc_feed_consumer_wants_results": "gives what is there",
    "tfc_ctx_abandon": "frees",
    "tfc_ctx_error": "gives what is there",
    "tfc_ctx_fd": "gives what is there",
    "tfc_ctx_wake": "writes to a descriptor",
    "tfc_node_upstream_changed": "marks what is known as old",
    "tfc_op_cancel": "schedules what is there",
    "tfc_event_exit_status": "calculates",
    "tfc_job_info_task": "gives what is there",
    "tfc_job_info_zygote": "gives what is there",
    "tfc_explanation_task": "gives what is there",
    "tfc_jobs_at": "gives what is there",
    "tfc_members_at": "gives what is there",
    "tfc_jobs_missing_at": "gives what is there",
    "tfc_log_position": "gives what is there",
    "tfc_member_list": "gives what is there",
    "tfc_pipe_ready": "schedules what is there",
    "tfc_node_address": "gives what is there",
    "tfc_port_hold_number": "gives what is there",
    "tfc_process_pid": "gives what is there",
    "tfc_spec_address": "gives what is there",
    "tfc_spec_count": "gives what is there",
    "tfc_spec_each": "gives what is there",
    "tfc_spec_equal": "compares",
    "tfc_sub_pause": "sets a flag",
    "tfc_sub_resume": "sets a flag",
}

SWEPT = re.compile(r"\bSWEPT\((tfc_\w+)\)")


def mapped(root):
    text = re.sub(r"/\*.*?\*/", "", (root / "lib/libtfcluster.map").read_text(), flags=re.S)
    return set(re.findall(r"^\s*(tfc_\w+);", text, re.M))


def swept(root):
    return {name for path in sorted((root / "test").glob("*/*_test.c"))
            for name in SWEPT.findall(path.read_text())}


def reason(name):
    for pattern, text in ALLOCATES_NOTHING.items():
        if name == pattern or pattern[0] == "*" and name.endswith(pattern[1:]):
            return text
    return None


def main(root):
    names, sweeps = mapped(root), swept(root)
    failures = [f"{name}: no test lets its allocations fail. Call it in a sweep of a "
                f"*_nomem_test.c, with SWEPT({name}) beside the call; or say in "
                f"test/check/sweeps.py why it allocates nothing"
                for name in sorted(names) if name not in sweeps and not reason(name)]
    failures += [f"{name}: swept, but not in libtfcluster.map" for name in sorted(sweeps - names)]
    failures += [f"{pattern}: in the list of test/check/sweeps.py, but fits no function"
                 for pattern in ALLOCATES_NOTHING
                 if not any(n == pattern or pattern[0] == "*" and n.endswith(pattern[1:])
                            for n in names)]
    print("\n".join(failures) or f"{len(sweeps)} of {len(names)} functions are swept, the others "
          "allocate nothing")
    return 1 if failures or not names else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
