/* proc: private directories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "proc_run.h"

#include "proc/proc.h"

/* systemd-tmpfiles asks for a shared lock of each directory and skips those that refuse it. */
static bool is_cleaned(const char *path)
{
	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_return_code(folder, errno);
	bool is_locked = flock(folder, LOCK_SH | LOCK_NB) < 0;
	assert_true(!is_locked || errno == EWOULDBLOCK);
	close(folder);
	return !is_locked;
}

static void cleaners_of_temporary_files_leave_it_alone(void **state)
{
	struct proc_run run;
	struct tfc__private_dir *dir;
	proc_run_begin(&run);
	assert_true(is_cleaned(run.dir));
	assert_int_equal(tfc__private_dir_open(run.ctx, run.dir, -1, "test", NULL, &dir), 0);
	assert_false(is_cleaned(tfc__private_dir_path(dir)));
	tfc__private_dir_close(dir);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cleaners_of_temporary_files_leave_it_alone),
	};
	return cmocka_run_group_tests_name("proc_private_dir", tests, NULL, NULL);
}
