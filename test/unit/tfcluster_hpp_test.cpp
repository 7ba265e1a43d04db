/* tfcluster.hpp: handles close once, a call's function is freed once, an exception waits for
 * dispatch. */
#include <memory>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <tfcluster/tfcluster.hpp>
#include <thread>
#include <utility>
#include <vector>
extern "C" {
#include <cmocka.h>
}

namespace
{

tfc::Ctx context()
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	return tfc::Ctx(options);
}

struct Counted {
	int ended;
};

void count_end(Counted *counted)
{
	counted->ended++;
}

using Owner = tfc::Handle<Counted, count_end>;

void a_handle_ends_what_it_owns_once(void **)
{
	Counted first = {}, second = {};
	{
		Owner owner(&first);
		Owner moved(std::move(owner));
		assert_false(static_cast<bool>(owner));
		assert_ptr_equal(moved.get(), &first);
		owner = std::move(moved);
		assert_int_equal(first.ended, 0);
		owner.reset(&second);
		assert_int_equal(first.ended, 1);
	}
	assert_int_equal(first.ended, 1);
	assert_int_equal(second.ended, 1);
}

void a_released_handle_is_the_caller_s(void **)
{
	Counted counted = {};
	{
		Owner owner(&counted);
		assert_ptr_equal(owner.release(), &counted);
	}
	assert_int_equal(counted.ended, 0);
}

void a_handle_moved_to_itself_keeps_what_it_owns(void **)
{
	Counted counted = {};
	Owner owner(&counted);
	Owner &same = owner;
	owner = std::move(same);
	assert_ptr_equal(owner.get(), &counted);
	assert_int_equal(counted.ended, 0);
}

template <class F> tfc::Error caught(F work)
{
	try {
		work();
	} catch (const tfc::Error &error) {
		return error;
	}
	fail_msg("nothing was thrown");
	return tfc::Error(0, "");
}

void a_failure_has_the_code_and_the_text_of_the_call(void **)
{
	tfc::Error error = caught([] { tfc::Job::parse("{\"nmae\": 1}", "job.json"); });
	assert_true(error.code() < 0);
	assert_non_null(strstr(error.what(), "job.json"));
	assert_non_null(strstr(error.what(), "nmae"));

	tfc::Ctx ctx = context();
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	options.first = 2000;
	options.last = 1000;
	error = caught([&] { tfc::Pool(ctx, &options); });
	assert_int_equal(error.code(), tfc_ctx_error(ctx.get())->code);
	assert_string_equal(error.what(), tfc_ctx_error(ctx.get())->text);
}

void an_exception_of_a_callback_is_thrown_by_run(void **)
{
	tfc::Ctx ctx = context();
	int called = 0;
	ctx.post([&] {
		called++;
		throw std::runtime_error("the first");
	});
	ctx.post([&] {
		called++;
		throw std::runtime_error("the second");
	});
	std::string text;
	while (called < 2 || text.empty())
		try {
			ctx.run(1000);
		} catch (const std::runtime_error &error) {
			text += error.what();
		}
	assert_string_equal(text.substr(0, 9).c_str(), "the first");
	assert_true(ctx.dispatch() >= 0); /* it is thrown once */
}

void a_posted_function_is_freed_after_its_call(void **)
{
	auto shared = std::make_shared<int>(0);
	tfc::Ctx ctx = context();
	std::thread other([&] { ctx.post([shared] { ++*shared; }); });
	other.join();
	assert_int_equal(shared.use_count(), 2);
	while (!*shared)
		ctx.run(1000);
	assert_int_equal(shared.use_count(), 1);
}

void a_posted_function_is_freed_with_its_context(void **)
{
	auto shared = std::make_shared<int>(0);
	{
		tfc::Ctx ctx = context();
		ctx.post([shared] { ++*shared; });
	}
	assert_int_equal(shared.use_count(), 1);
}

void a_reply_comes_once_and_frees_its_function(void **)
{
	auto shared = std::make_shared<std::vector<int>>();
	tfc::Ctx ctx = context();
	tfc::Node node(ctx, TFC_NODE_OPTIONS_INIT);
	tfc::Gateway gateway(ctx, node);
	gateway.stop("no-such-job",
		     [shared](const tfc_reply &reply) { shared->push_back(reply.code); });
	while (shared->empty())
		ctx.run(1000);
	assert_int_equal(shared->size(), 1);
	assert_int_equal(shared->front(), TFC_ENOENT);
	assert_int_equal(shared.use_count(), 1);
}

void a_request_that_is_refused_frees_its_function(void **)
{
	auto shared = std::make_shared<int>(0);
	tfc::Ctx ctx = context();
	tfc::Gateway gateway;
	{
		tfc::Node node(ctx, TFC_NODE_OPTIONS_INIT);
		gateway = tfc::Gateway(ctx, node);
	}
	tfc::Error error = caught(
		[&] { gateway.stop("no-such-job", [shared](const tfc_reply &) { ++*shared; }); });
	assert_int_equal(error.code(), TFC_ESTATE);
	assert_int_equal(*shared, 0);
	assert_int_equal(shared.use_count(), 1);
}

void a_subscription_may_be_closed_in_its_own_callback(void **)
{
	auto shared = std::make_shared<int>(0);
	tfc::Ctx ctx = context();
	tfc::Node node(ctx, TFC_NODE_OPTIONS_INIT);
	tfc::Gateway gateway(ctx, node);
	tfc::Sub sub;
	sub = tfc::Sub(gateway, "no-such-job", [&sub, shared](const tfc_event &event) {
		sub = tfc::Sub();
		*shared = event.error_code; /* what the function captured outlives the handle */
	});
	while (!*shared)
		ctx.run(1000);
	assert_int_equal(*shared, TFC_ENOENT);
	assert_int_equal(shared.use_count(), 1);
}

void a_run_may_be_closed_in_its_reply(void **)
{
	auto shared = std::make_shared<std::vector<int>>();
	tfc::Ctx ctx = context();
	tfc::Node node(ctx, TFC_NODE_OPTIONS_INIT);
	tfc::Gateway gateway(ctx, node);
	tfc::Job job = tfc::Job::parse("{\"argv\": [\"true\"], \"roles\": {\"worker\": {}}}");
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	options.host_tag_len = 1 << 20; /* too long: the submit fails */
	tfc::Sub sub;
	sub = tfc::Sub(
		gateway, job,
		[&sub, shared](const tfc_reply &reply) {
			sub = tfc::Sub();
			shared->push_back(reply.code);
		},
		[shared](const tfc_event &) { shared->push_back(0); }, &options);
	while (shared->empty())
		ctx.run(1000);
	assert_int_equal(shared->size(), 1);
	assert_int_equal(shared->front(), TFC_EINVAL);
	assert_int_equal(shared.use_count(), 1);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_ends_what_it_owns_once),
		cmocka_unit_test(a_released_handle_is_the_caller_s),
		cmocka_unit_test(a_handle_moved_to_itself_keeps_what_it_owns),
		cmocka_unit_test(a_failure_has_the_code_and_the_text_of_the_call),
		cmocka_unit_test(an_exception_of_a_callback_is_thrown_by_run),
		cmocka_unit_test(a_posted_function_is_freed_after_its_call),
		cmocka_unit_test(a_posted_function_is_freed_with_its_context),
		cmocka_unit_test(a_reply_comes_once_and_frees_its_function),
		cmocka_unit_test(a_request_that_is_refused_frees_its_function),
		cmocka_unit_test(a_subscription_may_be_closed_in_its_own_callback),
		cmocka_unit_test(a_run_may_be_closed_in_its_reply),
	};
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
