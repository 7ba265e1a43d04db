#include "node/agent_service_inner.h"

void logs_serve(struct session *session, struct tfc__rpc_request *request,
		const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ENOTSUP, "node", 0, "not yet");
	tfc__rpc_fail(request, &error);
}

void logs_end(struct served_job *job)
{
}
