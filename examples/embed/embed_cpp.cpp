/*
 * A job inside a C++ host: handles that close themselves, failures that are thrown, and callbacks
 * that no exception leaves (raii.hpp). Here a job that fails is an exception.
 *
 *   embed_cpp PROGRAM [ARGUMENT...]       two workers, each running the program
 *   embed_cpp python3 examples/tensorflow/mirrored.py
 *
 * Ctrl-C is a thread's business, as in many servers: it waits for signals, and posts what is to be
 * done to the thread that uses the context.
 */
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

#include "raii.hpp"

class Host : public tfc::Guard
{
	tfc::Ctx ctx;
	tfc::Node node;
	tfc::Gateway gateway;
	tfc::Sub sub;
	std::string id;
	std::atomic<int> asked{0}; /* the signal to stop for, written by another thread */
	int stops = 0;
	int status = -1; /* not over yet */

	void submitted(const tfc_reply &reply)
	{
		tfc::check(reply);
		id = reply.text;
		sub = tfc::subscribe(ctx, gateway, reply.text, tfc::callback<&Host::told>, this);
		if (std::exchange(stops, 0))
			stop();
	}

	void told(const tfc_event &event)
	{
		if (event.kind == TFC_EVENT_OUTPUT)
			std::cout << "[" << event.task_type << "/" << event.task_index << "] "
				  << std::string_view(event.data, event.data_len) << std::endl;
		if (event.kind != TFC_EVENT_END)
			return;
		if (event.job_state == TFC_JOB_FAILED)
			throw std::runtime_error(std::string("the job failed: ") + event.text);
		std::cout << "job " << tfc_job_state_name(event.job_state) << std::endl;
		status = event.reason == TFC_END_STOPPED ? 128 + asked : 0;
	}

	void stopped(const tfc_reply &reply)
	{
		if (reply.code != TFC_ESTATE) /* it has ended meanwhile */
			tfc::check(reply);
	}

	void stop()
	{
		tfc_stop_options options = TFC_STOP_OPTIONS_INIT;
		options.is_kill = stops++ > 0; /* a second Ctrl-C */
		if (!id.empty())
			tfc::check(tfc_gateway_stop(gateway.get(), id.c_str(), &options,
						    tfc::callback<&Host::stopped>, this, nullptr),
				   ctx);
	}

      public:
	Host()
	{
		tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
		tfc_node_options node_options = TFC_NODE_OPTIONS_INIT;
		ctx_options.helper_dir = std::getenv("TFC_HELPER_DIR"); /* before installation */
		node_options.env = environ;
		ctx = tfc::open_ctx(ctx_options);
		node = tfc::open_node(ctx, node_options);
		gateway = tfc::open_gateway(ctx, node);
	}

	void submit(char **argv)
	{
		auto job = tfc::new_job();
		tfc::set(job, "roles.worker.count", "2");
		for (; *argv; argv++)
			tfc::set(job, "argv[]", *argv);
		tfc::resolve(job, std::filesystem::current_path().c_str());
		tfc::check(tfc_gateway_submit(gateway.get(), job.get(), nullptr,
					      tfc::callback<&Host::submitted>, this, nullptr),
			   ctx);
	}

	int run()
	{
		while (status < 0) {
			tfc::check(tfc_ctx_run(ctx.get(), -1), ctx);
			rethrow();
		}
		return status;
	}

	/* For any thread. */
	void post_stop(int signal_number)
	{
		asked = signal_number;
		tfc_ctx_post(ctx.get(), tfc::callback<&Host::stop>, this);
	}
};

/* Until SIGUSR1, by which main says that the host is done. */
static void await_signals(Host &host, sigset_t set)
{
	for (int number; sigwait(&set, &number) == 0 && number != SIGUSR1;)
		host.post_stop(number);
}

static int serve(char **argv, sigset_t set)
{
	struct Joined : std::thread {
		using std::thread::thread;
		~Joined()
		{
			pthread_kill(native_handle(), SIGUSR1);
			join();
		}
	};
	Host host;
	Joined signals(await_signals, std::ref(host), set);
	host.submit(argv);
	return host.run();
}

int main(int argc, char **argv)
try {
	sigset_t set;
	sigemptyset(&set);
	for (int number : {SIGINT, SIGTERM, SIGUSR1})
		sigaddset(&set, number);
	pthread_sigmask(SIG_BLOCK, &set, nullptr); /* for the threads to come, too */
	if (argc < 2)
		throw std::invalid_argument("usage: embed_cpp PROGRAM [ARGUMENT...]");
	return serve(argv + 1, set);
} catch (const std::exception &failure) {
	std::cerr << "embed_cpp: " << failure.what() << std::endl;
	return 125;
}
