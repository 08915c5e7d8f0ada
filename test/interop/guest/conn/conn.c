/* conn: connections of librdmacm, one after another.
 *
 *	conn serve|call rc|uc ADDRESS PORT CYCLES MESSAGES SIZE
 *
 * In each cycle the two ends connect, the one that called sends a message, which
 * the other one sends back, MESSAGES times, and the one that called disconnects.
 * Byte i of message n is n + 7 * i. Connections of type uc have the port space
 * IB, since the kernel takes all of TCP for rc.
 *
 * A server says "listening" when it does. It ends with status 0 if all was as it
 * should be, and else says in which cycle what was not.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 65536, BACKLOG = 16 };

static unsigned char in[LARGEST], out[LARGEST];
static int cycle, messages, size;
static enum ibv_qp_type kind;
static struct rdma_event_channel *events; /* of a server */
static struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}, .sq_sig_all = 1};

static void die(const char *what)
{
	printf("conn: cycle %d: %s: %m\n", cycle, what);
	exit(1);
}

static void wrong(const char *what, int n)
{
	printf("conn: cycle %d: %s %d\n", cycle, what, n);
	exit(1);
}

/* Receive message n, which was posted before. */
static void receive(struct rdma_cm_id *id, int n)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(id, &wc) != 1)
		die("receive");
	if (wc.status)
		wrong("a receive has status", wc.status);
	if ((int)wc.byte_len != size)
		wrong("a message has bytes", wc.byte_len);
	for (int i = 0; i < size; i++)
		if (in[i] != (unsigned char)(n + 7 * i))
			wrong("another byte at", i);
}

static void post(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	if (rdma_post_recv(id, NULL, in, size, mr))
		die("post a receive");
}

static void send_message(struct rdma_cm_id *id, struct ibv_mr *mr, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < size; i++)
		out[i] = n + 7 * i;
	if (rdma_post_send(id, NULL, out, size, mr, IBV_SEND_SIGNALED))
		die("post a message");
	if (rdma_get_send_comp(id, &wc) != 1)
		die("send");
	if (wc.status)
		wrong("a message has status", wc.status);
}

/* An event of a server's. */
static enum rdma_cm_event_type next_event(struct rdma_cm_id **id)
{
	struct rdma_cm_event *e;
	enum rdma_cm_event_type type;

	do {
		if (rdma_get_cm_event(events, &e))
			die("wait for an event");
		type = e->event;
		if (id)
			*id = e->id;
		if (rdma_ack_cm_event(e))
			die("take an event");
	} while (type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	return type;
}

/* What follows when both ends are ready to begin. */
static void talk(struct rdma_cm_id *id, int calls)
{
	struct ibv_mr *min, *mout;
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};

	min = rdma_reg_msgs(id, in, LARGEST);
	mout = rdma_reg_msgs(id, out, LARGEST);
	if (!min || !mout)
		die("register memory");
	post(id, min);
	if (calls ? rdma_connect(id, &p) : rdma_accept(id, &p)) /* a call waits until it is connected */
		die(calls ? "connect" : "accept");
	for (int n = 0; n < messages; n++) {
		if (calls)
			send_message(id, mout, n);
		receive(id, n);
		if (n + 1 < messages)
			post(id, min);
		if (!calls)
			send_message(id, mout, n);
	}
	if (!calls) { /* the other one ends it, if need be before the last message of the set-up has come */
		enum rdma_cm_event_type e = next_event(NULL);

		if (e == RDMA_CM_EVENT_ESTABLISHED)
			e = next_event(NULL);
		if (e != RDMA_CM_EVENT_DISCONNECTED)
			wrong("the end is event", e);
	}
	if (rdma_disconnect(id))
		die("disconnect");
	if (rdma_dereg_mr(min) || rdma_dereg_mr(mout))
		die("give memory up");
	rdma_destroy_ep(id);
}

static struct rdma_cm_id *endpoint(char *address, char *port, int flags)
{
	struct rdma_addrinfo *found, hints = {.ai_flags = flags | RAI_NUMERICHOST, .ai_qp_type = kind,
		.ai_port_space = kind == IBV_QPT_UC ? RDMA_PS_IB : RDMA_PS_TCP};
	struct ibv_qp_init_attr own = attr; /* gets the completion queues */
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, port, &hints, &found))
		die("address");
	if (rdma_create_ep(&id, found, NULL, &own))
		die("endpoint");
	rdma_freeaddrinfo(found);
	return id;
}

int main(int argc, char **argv)
{
	int cycles, calls;
	struct rdma_cm_id *listener = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 8)
		wrong("arguments", argc);
	calls = !strcmp(argv[1], "call");
	attr.qp_type = kind = strcmp(argv[2], "uc") ? IBV_QPT_RC : IBV_QPT_UC;
	cycles = atoi(argv[5]);
	messages = atoi(argv[6]);
	size = atoi(argv[7]);
	if (size > LARGEST)
		wrong("size", size);
	if (!calls) {
		listener = endpoint(argv[3], argv[4], RAI_PASSIVE);
		events = rdma_create_event_channel();
		if (!events || rdma_migrate_id(listener, events)) /* rdma_get_request would move each connection, which takes long */
			die("event channel");
		if (rdma_listen(listener, BACKLOG))
			die("listen");
		printf("listening\n");
	}
	for (cycle = 0; cycle < cycles; cycle++) {
		struct rdma_cm_id *id = NULL;

		if (calls) {
			id = endpoint(argv[3], argv[4], 0);
		} else {
			enum rdma_cm_event_type e = next_event(&id);
			struct ibv_qp_init_attr own = attr;

			if (e != RDMA_CM_EVENT_CONNECT_REQUEST)
				wrong("instead of a request, event", e);
			if (rdma_create_qp(id, NULL, &own))
				die("queue pair");
		}
		talk(id, calls);
	}
	if (listener)
		rdma_destroy_ep(listener);
	printf("%d cycles\n", cycles);
	return 0;
}
