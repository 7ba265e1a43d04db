/* Names that a host may well have itself: the static library defines none of them, and calls none.
 */
#include <stdlib.h>

#define OWN(name)        \
	void name(void); \
	void name(void)  \
	{                \
		abort(); \
	}

OWN(agent_reply)
OWN(bundle_open)
OWN(channel_fail)
OWN(handshake_begin)
OWN(listener_lost)
OWN(maintainer_step)
OWN(process_state)
OWN(record_close)
OWN(session_leave)
OWN(stream_read)
OWN(stream_write)
