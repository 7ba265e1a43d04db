// A host somebody else wrote, in C++: owners instead of closes, and callbacks out of which no
// exception leaves.
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <tfcluster/tfcluster.h>

namespace
{

template <auto close> struct closer {
	template <class T> void operator()(T *handle) const
	{
		close(handle);
	}
};

template <class T, auto close> using owner = std::unique_ptr<T, closer<close>>;

void check(int code, const std::string &text)
{
	if (code < 0)
		throw std::runtime_error(std::string(tfc_err_name(code)) + ": " + text);
}

class run
{
      public:
	explicit run(const char *helper_dir)
	{
		tfc_error error = TFC_ERROR_INIT;
		tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
		options.helper_dir = helper_dir;
		tfc_ctx *ctx = nullptr;
		check(tfc_ctx_new(&options, &error, &ctx), error.text);
		ctx_.reset(ctx);
		tfc_node *node = nullptr;
		check(tfc_node_open(ctx, nullptr, &node), detail());
		node_.reset(node);
		tfc_gateway_options gateway_options = TFC_GATEWAY_OPTIONS_INIT;
		gateway_options.node = node;
		tfc_gateway *gateway = nullptr;
		check(tfc_gateway_open(ctx, &gateway_options, &gateway), detail());
		gateway_.reset(gateway);
	}

	std::string run_job(const std::string &text)
	{
		tfc_error error = TFC_ERROR_INIT;
		tfc_job *parsed = nullptr;
		check(tfc_job_parse(text.data(), text.size(), "job.json", &error, &parsed),
		      error.text);
		owner<tfc_job, tfc_job_free> job(parsed);
		tfc_sub *sub = nullptr;
		check(tfc_gateway_run(gateway_.get(), job.get(), nullptr, nullptr, on_reply,
				      on_event, this, &sub),
		      detail());
		sub_.reset(sub);
		while (!is_ended_)
			check(tfc_ctx_run(ctx_.get(), -1), detail());
		if (thrown_)
			std::rethrow_exception(thrown_);
		if (state_ != TFC_JOB_SUCCEEDED)
			throw std::runtime_error(std::string("job ") + tfc_job_state_name(state_));
		return output_;
	}

      private:
	std::string detail() const
	{
		return tfc_ctx_error(ctx_.get())->text;
	}

	// The guard: what is thrown inside a callback waits until dispatch has returned.
	template <class Body> void guarded(Body body) noexcept
	{
		try {
			body();
		} catch (...) {
			thrown_ = std::current_exception();
			is_ended_ = true;
		}
	}

	static void on_reply(void *user, const tfc_reply *reply)
	{
		auto *self = static_cast<run *>(user);
		self->guarded(
			[=] { check(reply->code, reply->code < 0 ? reply->error->text : ""); });
	}

	static void on_event(void *user, const tfc_event *event)
	{
		auto *self = static_cast<run *>(user);
		self->guarded([=] {
			if (event->kind == TFC_EVENT_OUTPUT)
				self->output_.append(event->data, event->data_len);
			if (event->kind == TFC_EVENT_END) {
				self->state_ = event->job_state;
				self->is_ended_ = true;
			}
		});
	}

	// closed from the last to the first
	owner<tfc_ctx, tfc_ctx_free> ctx_;
	owner<tfc_node, tfc_node_close> node_;
	owner<tfc_gateway, tfc_gateway_close> gateway_;
	owner<tfc_sub, tfc_sub_close> sub_;
	std::string output_;
	std::exception_ptr thrown_;
	unsigned state_ = 0;
	bool is_ended_ = false;
};

} // namespace

int main(int argc, char **argv)
{
	try {
		run host(argc > 1 ? argv[1] : nullptr);
		const std::string output = host.run_job(
			R"({"argv": ["/bin/sh", "-c", "echo hello from {task_index}"],
			    "roles": {"worker": {}}})");
		return output == "hello from 0" ? 0 : 1;
	} catch (const std::exception &error) {
		std::cerr << error.what() << '\n';
		return 2;
	}
}
