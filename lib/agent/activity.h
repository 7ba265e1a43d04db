/*
 * What a silent task is doing, as far as it says who holds a group up. Pure: the maintainer's core
 * decides by it. The numbers are on the wire.
 */
#ifndef TFC_AGENT_ACTIVITY_H
#define TFC_AGENT_ACTIVITY_H

enum tfc__activity {
	TFC__ACTIVITY_NONE = 0,     /* nobody has asked */
	TFC__ACTIVITY_UNKNOWN = 1,  /* it cannot be said */
	TFC__ACTIVITY_STOPPED = 2,  /* a signal or a debugger has stopped one of its processes */
	TFC__ACTIVITY_WAITING = 3,  /* it waits for the other members of its group */
	TFC__ACTIVITY_OWN_WORK = 4, /* it is in its own code, or waits for its own input */
};

#endif
