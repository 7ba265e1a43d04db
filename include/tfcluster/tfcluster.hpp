/*
 * libtfcluster for C++11 and later: move-only handles that close themselves, failures as
 * exceptions, and callbacks as std::function. This header has all of it, and calls the C interface.
 *
 * A callback may throw: no exception crosses the library's frames. The first exception is kept and
 * thrown by the tfc::Ctx::run or dispatch in which the callback ran.
 *
 * The context must outlive every other handle: declare it first. The other handles may be destroyed
 * inside their own callbacks, except a tfc::Node inside a hook. A handle that is empty
 * (default-constructed or moved from) may only be queried with get(), assigned to and destroyed.
 * Threads: as in C, everything under one context is used by one thread at a time, except
 * tfc::Ctx::post and wake.
 */
#ifndef TFCLUSTER_TFCLUSTER_HPP
#define TFCLUSTER_TFCLUSTER_HPP

#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tfcluster/tfcluster.h>
#include <utility>

namespace tfc
{

/* A failed call: code() is enum tfc_err, what() the message. */
class Error : public std::runtime_error
{
	int error_code;

      public:
	Error(int code, const char *text) : std::runtime_error(text), error_code(code)
	{
	}
	explicit Error(const tfc_error &error) : Error(error.code, error.text)
	{
	}
	int code() const noexcept
	{
		return error_code;
	}
};

/* Throws the failure of a call on a value (job.h, spec.h); else returns the call's result. */
inline int check(int code, const tfc_error &error)
{
	if (code < 0)
		throw Error(code, code == error.code ? error.text : tfc_err_text(code));
	return code;
}

/* Throws the failure of a request. */
inline void check(const tfc_reply &reply)
{
	if (reply.code < 0)
		throw Error(*reply.error);
}

/* Owns a handle of the library, and ends it with `end`. Empty by default and when moved from. */
template <class T, void (*end)(T *)> class Handle
{
	T *handle = nullptr;

      public:
	Handle() = default;
	explicit Handle(T *owned) noexcept : handle(owned)
	{
	}
	Handle(Handle &&other) noexcept : handle(other.release())
	{
	}
	Handle &operator=(Handle &&other) noexcept
	{
		reset(other.release());
		return *this;
	}
	~Handle()
	{
		reset();
	}
	T *get() const noexcept
	{
		return handle;
	}
	T *release() noexcept
	{
		T *owned = handle;
		handle = nullptr;
		return owned;
	}
	void reset(T *owned = nullptr) noexcept
	{
		T *old = handle;
		handle = owned;
		if (old)
			end(old);
	}
	explicit operator bool() const noexcept
	{
		return handle != nullptr;
	}
};

namespace detail
{

/* What a context's callbacks share: the exception to be thrown, and the calls whose callback has
 * not run yet. */
class State
{
	struct Call {
		State *state;
		std::function<void(const void *)> fn;
		std::list<Call>::iterator self;
	};

	std::exception_ptr thrown;
	std::mutex lock; /* of calls: post comes from any thread */
	std::list<Call> calls;

      public:
	Handle<tfc_ctx, tfc_ctx_free> ctx;

	template <class F> void guard(F work) noexcept
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
		std::exception_ptr first;
		std::swap(first, thrown);
		if (first)
			std::rethrow_exception(first);
	}

	/* Throws the failure of a call on the context; else returns its result. */
	int check(int code) const
	{
		return tfc::check(code, *tfc_ctx_error(ctx.get()));
	}

	/* Makes a call, begin(user), whose callback runs once: ended(user, ...), unless begin
	 * fails. */
	template <class Begin> int once(std::function<void(const void *)> fn, Begin begin)
	{
		std::list<Call> made(1, Call{this, std::move(fn), {}});
		Call *call = &made.front();
		call->self = made.begin();
		{
			std::lock_guard<std::mutex> held(lock);
			calls.splice(calls.end(), made);
		}
		int code = begin(static_cast<void *>(call));
		if (code < 0)
			take(call);
		return code;
	}

	/* Moves the call out of the list: it is freed with the list that this returns. */
	std::list<Call> take(Call *call)
	{
		std::list<Call> taken;
		std::lock_guard<std::mutex> held(lock);
		taken.splice(taken.end(), calls, call->self);
		return taken;
	}

	static void ended(void *user, const void *event) noexcept
	{
		Call *call = static_cast<Call *>(user);
		State *state = call->state;
		auto taken = state->take(call);
		state->guard([&] { taken.front().fn(event); });
	}

	static void replied(void *user, const tfc_reply *reply)
	{
		ended(user, reply);
	}

	static void done(void *user)
	{
		ended(user, nullptr);
	}
};

/* A callback that runs many times. The function exists until it returns, even if it closes its own
 * handle. */
template <class Event> struct Slot {
	State *state;
	std::shared_ptr<std::function<void(const Event &)>> fn;

	static void call(void *user, const Event *event) noexcept
	{
		Slot *slot = static_cast<Slot *>(user);
		auto fn = slot->fn;
		slot->state->guard([&] { (*fn)(*event); });
	}
};

template <class Event>
std::unique_ptr<Slot<Event>> make_slot(State &state, std::function<void(const Event &)> fn)
{
	return std::unique_ptr<Slot<Event>>(new Slot<Event>{
		&state, std::make_shared<std::function<void(const Event &)>>(std::move(fn))});
}

inline std::string take_text(char *text)
{
	std::unique_ptr<char, void (*)(void *)> owned(text, tfc_free);
	return std::string(text);
}

} // namespace detail

/* ---- values */

class Job : public Handle<tfc_job, tfc_job_free>
{
      public:
	Job() = default;
	static Job make()
	{
		tfc_job *job = nullptr;
		check(tfc_job_new(&job), TFC_ERROR_INIT);
		return Job(job);
	}
	static Job parse(const std::string &json, const char *file = nullptr)
	{
		tfc_error error = TFC_ERROR_INIT;
		tfc_job *job = nullptr;
		check(tfc_job_parse(json.data(), json.size(), file, &error, &job), error);
		return Job(job);
	}
	void set(const char *key, const char *value)
	{
		tfc_error error = TFC_ERROR_INIT;
		check(tfc_job_set(get(), key, value, &error), error);
	}
	void resolve(const char *directory)
	{
		tfc_error error = TFC_ERROR_INIT;
		check(tfc_job_resolve(get(), directory, &error), error);
	}
	std::string json(uint32_t flags = 0) const
	{
		char *text = nullptr;
		check(tfc_job_json(get(), flags, &text), TFC_ERROR_INIT);
		return detail::take_text(text);
	}

      private:
	explicit Job(tfc_job *job) : Handle(job)
	{
	}
};

class Spec : public Handle<tfc_spec, tfc_spec_free>
{
      public:
	Spec() = default;
	static Spec make()
	{
		tfc_spec *spec = nullptr;
		check(tfc_spec_new(&spec), TFC_ERROR_INIT);
		return Spec(spec);
	}
	static Spec parse(const std::string &json)
	{
		tfc_error error = TFC_ERROR_INIT;
		tfc_spec *spec = nullptr;
		check(tfc_spec_parse(json.data(), json.size(), &error, &spec), error);
		return Spec(spec);
	}
	void add(const char *task_type, uint32_t task_index, const char *address)
	{
		tfc_error error = TFC_ERROR_INIT;
		check(tfc_spec_add(get(), task_type, task_index, address, &error), error);
	}
	std::string tf_config(const char *task_type, uint32_t task_index,
			      tfc_strategy strategy = TFC_STRATEGY_AUTO) const
	{
		tfc_error error = TFC_ERROR_INIT;
		char *text = nullptr;
		check(tfc_spec_tf_config(get(), strategy, task_type, task_index, &error, &text),
		      error);
		return detail::take_text(text);
	}

      private:
	explicit Spec(tfc_spec *spec) : Handle(spec)
	{
	}
};

/* ---- the context */

class Ctx
{
	std::unique_ptr<detail::State> owned; /* callbacks have its address: it stays the same */

      public:
	Ctx() = default;
	explicit Ctx(const tfc_ctx_options &options) : owned(new detail::State)
	{
		tfc_error error = TFC_ERROR_INIT;
		tfc_ctx *ctx = nullptr;
		tfc::check(tfc_ctx_new(&options, &error, &ctx), error);
		owned->ctx.reset(ctx);
	}
	tfc_ctx *get() const noexcept
	{
		return owned ? owned->ctx.get() : nullptr;
	}
	detail::State &state() const noexcept
	{
		return *owned;
	}
	/* Throws the failure of a call on this context; else returns its result. */
	int check(int code) const
	{
		return owned->check(code);
	}
	int fd() const
	{
		return check(tfc_ctx_fd(get()));
	}
	/* As tfc_ctx_dispatch and tfc_ctx_run; they throw what a callback threw. */
	int dispatch(uint32_t budget = 0)
	{
		int code = check(tfc_ctx_dispatch(get(), budget));
		owned->rethrow();
		return code;
	}
	int run(int timeout_ms = -1)
	{
		int code = check(tfc_ctx_run(get(), timeout_ms));
		owned->rethrow();
		return code;
	}
	/* As tfc_ctx_post: from any thread, also beside other calls. */
	void post(std::function<void()> fn)
	{
		tfc_ctx *ctx = get();
		int code = owned->once([fn](const void *) { fn(); },
				       [ctx](void *user) {
					       return tfc_ctx_post(ctx, detail::State::done, user);
				       });
		if (code < 0) /* tfc_ctx_post sets no message */
			throw Error(code, tfc_err_text(code));
	}
	void wake()
	{
		tfc_ctx_wake(get());
	}
};

/* ---- ports and processes */

class Hold : public Handle<tfc_port_hold, tfc_port_hold_release>
{
      public:
	Hold() = default;
	explicit Hold(tfc_port_hold *hold) : Handle(hold)
	{
	}
	uint16_t number() const noexcept
	{
		return tfc_port_hold_number(get());
	}
};

class Pool : public Handle<tfc_port_pool, tfc_port_pool_close>
{
	detail::State *state = nullptr;

      public:
	Pool() = default;
	explicit Pool(const Ctx &ctx, const tfc_port_pool_options *options = nullptr)
	    : state(&ctx.state())
	{
		tfc_port_pool *pool = nullptr;
		ctx.check(tfc_port_pool_open(ctx.get(), options, &pool));
		reset(pool);
	}
	Hold acquire(uint16_t port = 0)
	{
		tfc_port_hold *hold = nullptr;
		state->check(tfc_port_acquire(get(), port, &hold));
		return Hold(hold);
	}
};

class Process
{
	std::unique_ptr<detail::Slot<tfc_process_event>> slot; /* outlives the handle */
	Handle<tfc_process, tfc_process_close> handle;

      public:
	Process() = default;
	Process(const Ctx &ctx, const tfc_process_options &options,
		std::function<void(const tfc_process_event &)> fn)
	    : slot(detail::make_slot(ctx.state(), std::move(fn)))
	{
		tfc_process *process = nullptr;
		ctx.check(tfc_process_spawn(ctx.get(), &options, slot->call, slot.get(), &process));
		handle.reset(process);
	}
	Process(Process &&) = default;
	Process &operator=(Process &&other) noexcept
	{
		handle = std::move(other.handle);
		slot = std::move(other.slot);
		return *this;
	}
	tfc_process *get() const noexcept
	{
		return handle.get();
	}
	void stop(uint32_t grace_ms)
	{
		slot->state->check(tfc_process_stop(get(), grace_ms));
	}
};

/* ---- nodes and gateways */

/* tfc_node_hooks as functions; an empty function is not called. before_launch and authorize refuse
 * by a result below 0 or by an exception. */
struct Hooks {
	std::function<int(const tfc_task_info &, tfc_env *)> before_launch;
	std::function<void(const tfc_task_info &)> after_exit;
	std::function<void(const tfc_error &)> refused;
	std::function<int(const tfc_peer_info &, tfc_verb, const char *)> authorize;
};

class Node
{
	struct Kept {
		detail::State *state;
		Hooks hooks;
	};

	std::unique_ptr<Kept> kept; /* outlives the handle */
	Handle<tfc_node, tfc_node_close> handle;

	template <class F> static int decide(void *user, F work) noexcept
	{
		int result = TFC_ECANCELED;
		static_cast<Kept *>(user)->state->guard([&] { result = work(); });
		return result;
	}

	tfc_node_hooks table() const
	{
		tfc_node_hooks hooks = TFC_NODE_HOOKS_INIT;
		hooks.user = kept.get();
		if (kept->hooks.before_launch)
			hooks.before_launch = [](void *user, const tfc_task_info *task,
						 tfc_env *env) {
				return decide(user, [=] {
					return static_cast<Kept *>(user)->hooks.before_launch(*task,
											      env);
				});
			};
		if (kept->hooks.after_exit)
			hooks.after_exit = [](void *user, const tfc_task_info *task) {
				Kept *self = static_cast<Kept *>(user);
				self->state->guard([=] { self->hooks.after_exit(*task); });
			};
		if (kept->hooks.refused)
			hooks.refused = [](void *user, const tfc_error *error) {
				Kept *self = static_cast<Kept *>(user);
				self->state->guard([=] { self->hooks.refused(*error); });
			};
		if (kept->hooks.authorize)
			hooks.authorize = [](void *user, const tfc_peer_info *peer, tfc_verb verb,
					     const char *job) {
				return decide(user, [=] {
					return static_cast<Kept *>(user)->hooks.authorize(*peer,
											  verb,
											  job);
				});
			};
		return hooks;
	}

	void end(int (*begin)(tfc_node *, tfc_node_ended_fn, void *), std::function<void()> fn)
	{
		tfc_node *node = get();
		kept->state->check(kept->state->once([fn](const void *) { fn(); },
						     [=](void *user) {
							     return begin(node, detail::State::done,
									  user);
						     }));
	}

      public:
	Node() = default;
	/* `hooks` replaces options.hooks. */
	Node(const Ctx &ctx, tfc_node_options options, Hooks hooks = Hooks())
	    : kept(new Kept{&ctx.state(), std::move(hooks)})
	{
		tfc_node_hooks functions = table();
		tfc_node *node = nullptr;
		options.hooks = &functions;
		ctx.check(tfc_node_open(ctx.get(), &options, &node));
		handle.reset(node);
	}
	/* As tfc_node_open_json. */
	Node(const Ctx &ctx, const std::string &json, const char *const *env, Hooks hooks = Hooks())
	    : kept(new Kept{&ctx.state(), std::move(hooks)})
	{
		tfc_node_hooks functions = table();
		tfc_node *node = nullptr;
		ctx.check(tfc_node_open_json(ctx.get(), json.data(), json.size(), nullptr, env,
					     &functions, &node));
		handle.reset(node);
	}
	Node(Node &&) = default;
	Node &operator=(Node &&other) noexcept
	{
		handle = std::move(other.handle);
		kept = std::move(other.kept);
		return *this;
	}
	tfc_node *get() const noexcept
	{
		return handle.get();
	}
	void leave(std::function<void()> fn)
	{
		end(tfc_node_leave, std::move(fn));
	}
	void shutdown(std::function<void()> fn)
	{
		end(tfc_node_shutdown, std::move(fn));
	}
};

class Gateway : public Handle<tfc_gateway, tfc_gateway_close>
{
	detail::State *state = nullptr;

      public:
	using Reply = std::function<void(const tfc_reply &)>;

	Gateway() = default;
	Gateway(const Ctx &ctx, const tfc_gateway_options &options) : state(&ctx.state())
	{
		tfc_gateway *gateway = nullptr;
		ctx.check(tfc_gateway_open(ctx.get(), &options, &gateway));
		reset(gateway);
	}
	Gateway(const Ctx &ctx, const Node &node) : state(&ctx.state())
	{
		tfc_gateway *gateway = nullptr;
		ctx.check(tfc_gateway_open_json(ctx.get(), node.get(), "{}", 2, nullptr, &gateway));
		reset(gateway);
	}
	detail::State &shared() const noexcept
	{
		return *state;
	}
	/* Makes any request of gateway.h: begin(replied, user) calls its tfc_gateway_... with these
	 * two arguments and returns the result. `fn` gets the reply, once. */
	template <class Begin> void request(Reply fn, Begin begin)
	{
		state->check(state->once(
			[fn](const void *reply) { fn(*static_cast<const tfc_reply *>(reply)); },
			[&](void *user) { return begin(&detail::State::replied, user); }));
	}
	void submit(const Job &job, Reply fn, const tfc_submit_options *options = nullptr)
	{
		request(std::move(fn), [&](tfc_reply_fn replied, void *user) {
			return tfc_gateway_submit(get(), job.get(), options, replied, user,
						  nullptr);
		});
	}
	void stop(const std::string &job, Reply fn, const tfc_stop_options *options = nullptr)
	{
		request(std::move(fn), [&](tfc_reply_fn replied, void *user) {
			return tfc_gateway_stop(get(), job.c_str(), options, replied, user,
						nullptr);
		});
	}
};

class Sub
{
	struct Slots {
		std::unique_ptr<detail::Slot<tfc_event>> events;
		std::unique_ptr<detail::Slot<tfc_reply>> replies;
	};
	std::unique_ptr<Slots> slots; /* outlives the handle */
	Handle<tfc_sub, tfc_sub_close> handle;

	static void on_event(void *user, const tfc_event *event) noexcept
	{
		detail::Slot<tfc_event>::call(static_cast<Slots *>(user)->events.get(), event);
	}
	static void on_reply(void *user, const tfc_reply *reply) noexcept
	{
		detail::Slot<tfc_reply>::call(static_cast<Slots *>(user)->replies.get(), reply);
	}

      public:
	Sub() = default;
	Sub(const Gateway &gateway, const std::string &job,
	    std::function<void(const tfc_event &)> fn,
	    const tfc_subscribe_options *options = nullptr)
	    : slots(new Slots{detail::make_slot(gateway.shared(), std::move(fn)), nullptr})
	{
		tfc_sub *sub = nullptr;
		gateway.shared().check(tfc_gateway_subscribe(gateway.get(), job.c_str(), options,
							     on_event, slots.get(), &sub));
		handle.reset(sub);
	}
	/* As tfc_gateway_run: submits a job and follows it. `reply` is called once, before all
	 * events. */
	Sub(const Gateway &gateway, const Job &job, Gateway::Reply reply,
	    std::function<void(const tfc_event &)> fn,
	    const tfc_submit_options *submit_options = nullptr,
	    const tfc_subscribe_options *subscribe_options = nullptr)
	    : slots(new Slots{detail::make_slot(gateway.shared(), std::move(fn)),
			      detail::make_slot(gateway.shared(), std::move(reply))})
	{
		tfc_sub *sub = nullptr;
		gateway.shared().check(tfc_gateway_run(gateway.get(), job.get(), submit_options,
						       subscribe_options, on_reply, on_event,
						       slots.get(), &sub));
		handle.reset(sub);
	}
	/* As tfc_gateway_watch. */
	static Sub watch(const Gateway &gateway, std::function<void(const tfc_event &)> fn,
			 const tfc_watch_options *options = nullptr)
	{
		Sub made;
		tfc_sub *sub = nullptr;
		made.slots.reset(
			new Slots{detail::make_slot(gateway.shared(), std::move(fn)), nullptr});
		gateway.shared().check(tfc_gateway_watch(gateway.get(), options, on_event,
							 made.slots.get(), &sub));
		made.handle.reset(sub);
		return made;
	}
	Sub(Sub &&) = default;
	Sub &operator=(Sub &&other) noexcept
	{
		handle = std::move(other.handle);
		slots = std::move(other.slots);
		return *this;
	}
	tfc_sub *get() const noexcept
	{
		return handle.get();
	}
	void pause() noexcept
	{
		tfc_sub_pause(get());
	}
	void resume() noexcept
	{
		tfc_sub_resume(get());
	}
};

} // namespace tfc

#endif
