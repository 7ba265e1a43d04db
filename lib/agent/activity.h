/*
 * The activity of a silent task, as far as it shows which member holds up its group. Pure: the
 * maintainer's core decides by it. The numbers are on the wire.
 */
#ifndef TFC_AGENT_ACTIVITY_H
#define TFC_AGENT_ACTIVITY_H

enum tfc__activity {
	TFC__ACTIVITY_NONE = 0,     /* was not queried */
	TFC__ACTIVITY_UNKNOWN = 1,  /* could not be determined */
	TFC__ACTIVITY_STOPPED = 2,  /* one of its processes is stopped, by a signal or a debugger */
	TFC__ACTIVITY_WAITING = 3,  /* it waits for the other members of its group */
	TFC__ACTIVITY_OWN_WORK = 4, /* it runs its own code, or waits for its own input */
};

#endif
