/*
 * libtfcluster's handles for C++17: each is a unique_ptr that ends what it holds, each open
 * function throws the library's sentence, and a Guard keeps exceptions out of the library. Take it
 * along.
 */
#ifndef EMBED_RAII_HPP
#define EMBED_RAII_HPP

#include <exception>
#include <memory>
#include <stdexcept>
#include <tfcluster/tfcluster.h>
#include <utility>

namespace tfc
{
template <auto end> struct Ender {
	template <class T> void operator()(T *handle) const noexcept
	{
		end(handle);
	}
};

/* Members of these types are declared in this order: C++ then closes them in the other one. */
using Ctx = std::unique_ptr<tfc_ctx, Ender<tfc_ctx_free>>;
using Node = std::unique_ptr<tfc_node, Ender<tfc_node_close>>;
using Gateway = std::unique_ptr<tfc_gateway, Ender<tfc_gateway_close>>;
using Sub = std::unique_ptr<tfc_sub, Ender<tfc_sub_close>>;
using Job = std::unique_ptr<tfc_job, Ender<tfc_job_free>>;

/* Throws the sentence of a failed call; else returns what the call did. */
inline int check(int code, const tfc_error &error)
{
	if (code < 0)
		throw std::runtime_error(error.text);
	return code;
}

inline int check(int code, const Ctx &ctx)
{
	return check(code, *tfc_ctx_error(ctx.get()));
}

inline void check(const tfc_reply &reply)
{
	if (reply.code < 0)
		throw std::runtime_error(reply.error->text);
}

inline Ctx open_ctx(const tfc_ctx_options &options)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx = nullptr;
	check(tfc_ctx_new(&options, &error, &ctx), error);
	return Ctx(ctx);
}

inline Node open_node(const Ctx &ctx, const tfc_node_options &options)
{
	tfc_node *node = nullptr;
	check(tfc_node_open(ctx.get(), &options, &node), ctx);
	return Node(node);
}

inline Gateway open_gateway(const Ctx &ctx, const Node &node)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_gateway *gateway = nullptr;
	options.node = node.get();
	check(tfc_gateway_open(ctx.get(), &options, &gateway), ctx);
	return Gateway(gateway);
}

inline Sub subscribe(const Ctx &ctx, const Gateway &gateway, const char *job, tfc_event_fn told,
		     void *user)
{
	tfc_sub *sub = nullptr;
	check(tfc_gateway_subscribe(gateway.get(), job, nullptr, told, user, &sub), ctx);
	return Sub(sub);
}

inline Job new_job()
{
	tfc_job *job = nullptr;
	if (tfc_job_new(&job) < 0)
		throw std::bad_alloc();
	return Job(job);
}

inline void set(const Job &job, const char *key, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	check(tfc_job_set(job.get(), key, value, &error), error);
}

inline void resolve(const Job &job, const char *directory)
{
	tfc_error error = TFC_ERROR_INIT;
	check(tfc_job_resolve(job.get(), directory, &error), error);
}

/*
 * No exception may leave a callback: the frames below it are the library's, which are C. A host
 * derives from Guard, gives tfc::callback<&MyHost::method> to the library with itself as `user`,
 * and calls rethrow() behind each dispatch: what a method threw is thrown there.
 */
class Guard
{
	std::exception_ptr thrown;

      public:
	template <class F> void guarded(F work) noexcept
	{
		try {
			work();
		} catch (...) {
			if (!thrown)
				thrown = std::current_exception();
		}
	}

	void rethrow()
	{
		if (auto first = std::exchange(thrown, nullptr))
			std::rethrow_exception(first);
	}
};

template <auto method> struct Callback;

template <class Host, class Event, void (Host::*method)(const Event &)> struct Callback<method> {
	static void call(void *user, const Event *event) noexcept
	{
		auto host = static_cast<Host *>(user);
		host->guarded([=] { (host->*method)(*event); });
	}
};

template <class Host, void (Host::*method)()> struct Callback<method> {
	static void call(void *user) noexcept
	{
		auto host = static_cast<Host *>(user);
		host->guarded([=] { (host->*method)(); });
	}
};

template <auto method> constexpr auto callback = Callback<method>::call;
} // namespace tfc

#endif
