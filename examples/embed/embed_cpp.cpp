/*
 * A job inside a C++ host, with tfcluster.hpp: handles close themselves, failures are thrown, and
 * no exception leaves a callback. In this example a failed job is an exception.
 *
 *   embed_cpp PROGRAM [ARGUMENT...]       two workers, each running the program
 *   embed_cpp python3 examples/tensorflow/mirrored.py
 *
 * A thread waits for Ctrl-C, as in many servers, and posts the stop to the thread that uses the
 * context.
 */
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

#include <tfcluster/tfcluster.hpp>

static tfc::Ctx open_ctx()
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = std::getenv("TFC_HELPER_DIR"); /* before installation */
	return tfc::Ctx(options);
}

class Host
{
	tfc::Ctx ctx = open_ctx(); /* closed last */
	tfc::Node node{ctx, "{}", environ};
	tfc::Gateway gateway{ctx, node};
	tfc::Sub sub;
	std::string id;
	int stop_signal = 0;
	int stops = 0;
	int status = -1; /* until the job has ended */

	void submitted(const tfc_reply &reply)
	{
		tfc::check(reply);
		id = reply.text;
		if (std::exchange(stops, 0))
			stop();
	}

	void on_event(const tfc_event &event)
	{
		if (event.kind == TFC_EVENT_OUTPUT)
			std::cout << "[" << event.task_type << "/" << event.task_index << "] "
				  << std::string_view(event.data, event.data_len) << std::endl;
		if (event.kind == TFC_EVENT_LOST)
			throw std::runtime_error(std::string("the job is lost: ") + event.text);
		if (event.kind != TFC_EVENT_END)
			return;
		if (event.job_state == TFC_JOB_FAILED)
			throw std::runtime_error(std::string("the job failed: ") + event.text);
		std::cout << "job " << tfc_job_state_name(event.job_state) << std::endl;
		status = event.reason == TFC_END_STOPPED ? 128 + stop_signal : 0;
	}

	void stop()
	{
		tfc_stop_options options = TFC_STOP_OPTIONS_INIT;
		options.is_kill = stops++ > 0; /* a second Ctrl-C */
		if (id.empty())
			return;
		gateway.stop(
			id,
			[](const tfc_reply &reply) {
				if (reply.code != TFC_ESTATE) /* the job has already ended */
					tfc::check(reply);
			},
			&options);
	}

      public:
	void submit(char **argv)
	{
		tfc::Job job = tfc::Job::make();
		job.set("roles.worker.count", "2");
		for (; *argv; argv++)
			job.set("argv[]", *argv);
		job.resolve(std::filesystem::current_path().c_str());
		sub = tfc::Sub(
			gateway, job, [this](const tfc_reply &reply) { submitted(reply); },
			[this](const tfc_event &event) { on_event(event); });
	}

	int run()
	{
		while (status < 0)
			ctx.run();
		return status;
	}

	/* From any thread. */
	void post_stop(int signal_number)
	{
		ctx.post([this, signal_number] {
			stop_signal = signal_number;
			stop();
		});
	}
};

/* Runs until SIGUSR1, with which main ends the thread. */
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
	pthread_sigmask(SIG_BLOCK, &set, nullptr); /* inherited by new threads */
	if (argc < 2)
		throw std::invalid_argument("usage: embed_cpp PROGRAM [ARGUMENT...]");
	return serve(argv + 1, set);
} catch (const std::exception &failure) {
	std::cerr << "embed_cpp: " << failure.what() << std::endl;
	return 125;
}
