/* qp: one queue pair of the kernel's driver that does what its arguments say.
 *
 *	qp rc|uc|ud KEY=NUMBER ... dgid=GID go=FILE -- STEP ...
 *
 * Keys, all numbers as in C: the peer's dqpn, dpsn, rkey and raddr; gid (index),
 * psn, mtu, size (of the buffer), depth (READs and atomics at once), timeout,
 * retry, rnr, rnrtimer, srq (1: receives come from a shared receive queue).
 *
 * When the queue pair is ready, it prints where it is:
 *
 *	ready qpn 0x11 psn 0x500 rkey 0x1234 addr 0x7f...
 *
 * Steps, one after the other. OFF and ROFF count from the start of the own and
 * of the peer's buffer.
 *
 *	recv=OFF,LEN                   post a receive
 *	send=OFF,LEN[,IMM]             post a SEND
 *	write=OFF,LEN,ROFF[,IMM]       post a WRITE
 *	read=OFF,LEN,ROFF              post a READ
 *	cas=OFF,ROFF,COMPARE,SWAP      post a compare-and-swap
 *	add=OFF,ROFF,ADD               post a fetch-and-add
 *	wait=N                         wait for N completions without errors
 *	fail=STATUS                    wait for a completion with this status
 *	burst=N,OFF,LEN                post N SENDs from buffers that follow each other,
 *	                               the n-th with the pattern of SEED n
 *	collect=N,OFF,LEN,MS           take up to N completions of receives that were
 *	                               posted with burst's buffers (of LEN bytes, and 40
 *	                               for datagrams), until none comes for MS; each
 *	                               message has to be whole, with any SEED; over RC
 *	                               the n-th one with SEED n
 *	recvs=N,OFF,LEN                post receives for collect
 *	fill=OFF,LEN,SEED              write a pattern: byte i is SEED + 7 * i + i / 251
 *	check=OFF,LEN,SEED             the pattern has to be there
 *	value=OFF,V                    the 64-bit value has to be there
 *	go                             say "waiting", and wait until FILE exists
 *	sleep=MILLISECONDS
 *
 * It ends with status 0 if all was as it should be, and else says what was not.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GID, PSN, MTU, SIZE, DEPTH, TIMEOUT, RETRY, RNR, RNRTIMER, USESRQ, DQPN, DPSN, RKEY, RADDR, KEYS };

static const char *key_name[KEYS] = {"gid", "psn", "mtu", "size", "depth", "timeout", "retry", "rnr", "rnrtimer", "srq",
	"dqpn", "dpsn", "rkey", "raddr"};
static unsigned long long key[KEYS] = {[GID] = 1, [PSN] = 0x500, [MTU] = 1024, [SIZE] = 65536, [DEPTH] = 16,
	[TIMEOUT] = 18, [RETRY] = 7, [RNR] = 7, [RNRTIMER] = 12};
static const char *dgid = "", *go_file = "";

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_pd *pd;
static struct ibv_ah *ah; /* of datagrams: then each receive begins with GRH bytes */
enum { GRH = 40, QKEY = 0x11111111 };
static unsigned char *buf;

static void die(const char *what, const char *which)
{
	printf("qp: %s %s: %m\n", what, which);
	exit(1);
}

/* Options. */
static void option(char *arg)
{
	char *value = strchr(arg, '=');
	if (!value)
		die("no value in", arg);
	*value++ = 0;
	if (!strcmp(arg, "dgid")) {
		dgid = value;
		return;
	}
	if (!strcmp(arg, "go")) {
		go_file = value;
		return;
	}
	for (int k = 0; k < KEYS; k++)
		if (!strcmp(arg, key_name[k])) {
			key[k] = strtoull(value, NULL, 0);
			return;
		}
	die("no such key as", arg);
}

static void create(int type)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *device = n ? ibv_open_device(list[0]) : NULL;
	pd = device ? ibv_alloc_pd(device) : NULL;
	if (!pd)
		die("open", "rxe0");
	if (posix_memalign((void **)&buf, 4096, key[SIZE]))
		die("allocate", "the buffer");
	memset(buf, 0, key[SIZE]);
	int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	mr = ibv_reg_mr(pd, buf, key[SIZE], rights);
	cq = ibv_create_cq(device, 2048, NULL, NULL, 0);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 256, .max_sge = 1}};
	if (key[USESRQ] && !(srq = ibv_create_srq(pd, &sa)))
		die("create", "the shared receive queue");
	struct ibv_qp_init_attr qa = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
		.cap = {.max_send_wr = 256, .max_recv_wr = srq ? 0 : 1024, .max_send_sge = 1, .max_recv_sge = 1}};
	qp = mr && cq ? ibv_create_qp(pd, &qa) : NULL;
	if (!qp)
		die("create", "the queue pair");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights, .qkey = QKEY};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (ibv_modify_qp(qp, &a, mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		die("modify to", "INIT");
}

static void join(int type)
{
	int rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = key[DQPN], .rq_psn = key[DPSN],
		.max_dest_rd_atomic = key[DEPTH], .min_rnr_timer = key[RNRTIMER],
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = key[GID], .hop_limit = 64}}};
	for (unsigned long long m = 256; m < key[MTU]; m *= 2)
		a.path_mtu++;
	if (inet_pton(AF_INET6, dgid, &a.ah_attr.grh.dgid) != 1)
		die("no GID", dgid);
	if (ud && !(ah = ibv_create_ah(pd, &a.ah_attr)))
		die("create", "the address handle");
	int mask = ud ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (ibv_modify_qp(qp, &a, mask | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)))
		die("modify to", "RTR");
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = key[PSN], .timeout = key[TIMEOUT], .retry_cnt = key[RETRY],
		.rnr_retry = key[RNR], .max_rd_atomic = key[DEPTH]};
	mask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? mask : 0)))
		die("modify to", "RTS");
	printf("ready qpn %#x psn %#llx rkey %#x addr %#llx\n", qp->qp_num, key[PSN], mr->rkey, (unsigned long long)(uintptr_t)buf);
	fflush(stdout);
}

/* Steps. */
static const char *step; /* the one at hand */
static unsigned long long arg[4];
static int args;

static void complain(const char *what, unsigned long long got, unsigned long long want)
{
	printf("qp: %s: %s %#llx, want %#llx\n", step, what, got, want);
	exit(1);
}

static void post_recv(void)
{
	struct ibv_sge sge = {(uintptr_t)buf + arg[0], arg[1], mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	if (srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad))
		die("post", step);
}

static void post(enum ibv_wr_opcode opcode, unsigned len, unsigned long long remote, unsigned imm)
{
	struct ibv_sge sge = {(uintptr_t)buf + arg[0], len, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(imm), .wr.rdma = {.remote_addr = key[RADDR] + remote, .rkey = key[RKEY]}}, *bad;
	if (ah) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = key[DQPN];
		wr.wr.ud.remote_qkey = QKEY;
	} else if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = key[RADDR] + remote;
		wr.wr.atomic.compare_add = arg[2];
		wr.wr.atomic.swap = arg[3];
		wr.wr.atomic.rkey = key[RKEY];
	}
	if (ibv_post_send(qp, &wr, &bad))
		die("post", step);
}

static void await(unsigned status)
{
	struct ibv_wc wc;
	int n = 0;
	for (time_t end = time(NULL) + 60; !n; n = ibv_poll_cq(cq, 1, &wc))
		if (time(NULL) > end)
			complain("completions", 0, 1);
		else
			usleep(200);
	if (n < 0 || wc.status != status)
		complain("status", n < 0 ? ~0ULL : wc.status, status);
	if (wc.status == IBV_WC_SUCCESS)
		printf("completion %d, %u bytes\n", wc.opcode, wc.byte_len);
	if (wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_IMM)
		printf("immediate %#x\n", ntohl(wc.imm_data));
}

static unsigned char pattern(unsigned long long i, unsigned long long seed) { return seed + 7 * i + i / 251; }

static void fill(unsigned char *b, unsigned long long len, unsigned long long seed)
{
	for (unsigned long long i = 0; i < len; i++)
		b[i] = pattern(i, seed);
}

static void check(const unsigned char *b, unsigned long long len, unsigned long long seed)
{
	for (unsigned long long i = 0; i < len; i++)
		if (b[i] != pattern(i, seed)) {
			printf("qp: byte %llu of the message of %llu: ", i, seed);
			complain("found", b[i], pattern(i, seed));
		}
}

/* Many messages, some of which may get lost but over RC. */
static void burst(void)
{
	unsigned long long n = arg[0], off = arg[1], len = arg[2];
	for (unsigned long long i = 0; i < n; i++) {
		arg[0] = off + i * len;
		fill(buf + arg[0], len, i);
		post(IBV_WR_SEND, len, 0, 0);
	}
	while (n--)
		await(IBV_WC_SUCCESS);
}

static void recvs(void)
{
	unsigned long long n = arg[0], off = arg[1], len = arg[2] + (ah ? GRH : 0);
	for (unsigned long long i = 0; i < n; i++) {
		arg[0] = off + i * len;
		arg[1] = len;
		post_recv();
	}
}

static unsigned long long now(void) /* milliseconds */
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ULL + t.tv_nsec / 1000000;
}

static void collect(void)
{
	unsigned long long got = 0, last = 0, skip = ah ? GRH : 0, stride = arg[2] + skip;
	/* The first may take its time: the row has a limit. */
	while (got < arg[0] && (!got || now() < last + arg[3])) {
		struct ibv_wc wc;
		if (!ibv_poll_cq(cq, 1, &wc)) {
			usleep(200);
			continue;
		}
		last = now();
		if (wc.status)
			complain("status", wc.status, 0);
		if (wc.byte_len != stride)
			complain("length", wc.byte_len, stride);
		const unsigned char *b = buf + arg[1] + got++ * stride + skip;
		check(b, arg[2], qp->qp_type == IBV_QPT_RC ? got - 1 : b[0]);
	}
	printf("collected %llu\n", got);
}

static void run_step(char *text)
{
	char *rest = strchr(text, '=');
	step = text;
	args = 0;
	memset(arg, 0, sizeof arg);
	if (rest) {
		*rest++ = 0;
		for (char *t = strtok(rest, ","); t && args < 4; t = strtok(NULL, ","))
			arg[args++] = strtoull(t, NULL, 0);
	}
	if (!strcmp(step, "recv"))
		post_recv();
	else if (!strcmp(step, "send"))
		post(args > 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, arg[1], 0, arg[2]);
	else if (!strcmp(step, "write"))
		post(args > 3 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, arg[1], arg[2], arg[3]);
	else if (!strcmp(step, "read"))
		post(IBV_WR_RDMA_READ, arg[1], arg[2], 0);
	else if (!strcmp(step, "cas"))
		post(IBV_WR_ATOMIC_CMP_AND_SWP, 8, arg[1], 0);
	else if (!strcmp(step, "add"))
		post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, arg[1], 0);
	else if (!strcmp(step, "wait"))
		while (arg[0]--)
			await(IBV_WC_SUCCESS);
	else if (!strcmp(step, "fail"))
		await(arg[0]);
	else if (!strcmp(step, "fill"))
		fill(buf + arg[0], arg[1], arg[2]);
	else if (!strcmp(step, "check"))
		check(buf + arg[0], arg[1], arg[2]);
	else if (!strcmp(step, "burst"))
		burst();
	else if (!strcmp(step, "recvs"))
		recvs();
	else if (!strcmp(step, "collect"))
		collect();
	else if (!strcmp(step, "value")) {
		unsigned long long v;
		memcpy(&v, buf + arg[0], 8);
		if (v != arg[1])
			complain("found", v, arg[1]);
	} else if (!strcmp(step, "go")) {
		printf("waiting\n");
		fflush(stdout);
		while (access(go_file, F_OK))
			usleep(2000);
	} else if (!strcmp(step, "sleep"))
		usleep(arg[0] * 1000);
	else
		die("no such step as", step);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int i;
	if (argc < 2 || (strcmp(argv[1], "rc") && strcmp(argv[1], "uc") && strcmp(argv[1], "ud")))
		die("the first argument is", "rc, uc or ud");
	int type = !strcmp(argv[1], "rc") ? IBV_QPT_RC : !strcmp(argv[1], "uc") ? IBV_QPT_UC : IBV_QPT_UD;
	for (i = 2; i < argc && strcmp(argv[i], "--"); i++)
		option(argv[i]);
	create(type);
	join(type);
	for (i++; i < argc; i++)
		run_step(argv[i]);
	printf("done\n");
	return 0;
}
