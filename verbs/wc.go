package verbs

import "fmt"

// A WCStatus is how a work request ended. The numbers are those of libibverbs.
type WCStatus uint8

// The statuses that can occur.
const (
	WCSuccess       WCStatus = 0
	WCLocLenErr     WCStatus = 1
	WCLocQPOpErr    WCStatus = 2
	WCLocProtErr    WCStatus = 4
	WCFlushErr      WCStatus = 5
	WCMWBindErr     WCStatus = 6
	WCBadResp       WCStatus = 7
	WCLocAccessErr  WCStatus = 8
	WCRemInvReqErr  WCStatus = 9
	WCRemAccessErr  WCStatus = 10
	WCRemOpErr      WCStatus = 11
	WCRetryExc      WCStatus = 12
	WCRNRRetryExc   WCStatus = 13
	WCFatalErr      WCStatus = 19
	WCRespTimeout   WCStatus = 20
	WCGeneralErr    WCStatus = 21
	wcStatusesCount          = 22
)

var wcStatuses = [wcStatusesCount]struct{ name, text string }{
	WCSuccess:      {"SUCCESS", "success"},
	WCLocLenErr:    {"LOC_LEN_ERR", "local length error: the message does not fit"},
	WCLocQPOpErr:   {"LOC_QP_OP_ERR", "local QP operation error: the work request cannot be executed"},
	WCLocProtErr:   {"LOC_PROT_ERR", "local protection error: a scatter entry names memory that it may not"},
	WCFlushErr:     {"WR_FLUSH_ERR", "flushed: the queue pair failed before this work request was done"},
	WCMWBindErr:    {"MW_BIND_ERR", "memory window bind error"},
	WCBadResp:      {"BAD_RESP_ERR", "bad response: the peer's answer does not fit the request"},
	WCLocAccessErr: {"LOC_ACCESS_ERR", "local access error"},
	WCRemInvReqErr: {"REM_INV_REQ_ERR", "remote invalid request: the peer refuses it"},
	WCRemAccessErr: {"REM_ACCESS_ERR", "remote access error: the peer's key, range or right does not allow it"},
	WCRemOpErr:     {"REM_OP_ERR", "remote operation error: the peer could not finish"},
	WCRetryExc:     {"RETRY_EXC_ERR", "transport retries exceeded: the peer does not answer"},
	WCRNRRetryExc:  {"RNR_RETRY_EXC_ERR", "receiver-not-ready retries exceeded: the peer has no receive posted"},
	WCFatalErr:     {"FATAL_ERR", "fatal error"},
	WCRespTimeout:  {"RESP_TIMEOUT_ERR", "response timeout"},
	WCGeneralErr:   {"GENERAL_ERR", "general error"},
}

// String returns the name that libibverbs has, without its prefix.
func (s WCStatus) String() string {
	if int(s) < len(wcStatuses) && wcStatuses[s].name != "" {
		return wcStatuses[s].name
	}
	return fmt.Sprintf("WC_STATUS(%d)", uint8(s))
}

// Description says what the status means.
func (s WCStatus) Description() string {
	if int(s) < len(wcStatuses) && wcStatuses[s].text != "" {
		return wcStatuses[s].text
	}
	return "unknown status"
}

// A WCOpcode is what completed. The numbers are those of libibverbs.
type WCOpcode uint8

// The operations that complete.
const (
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompSwap        WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCFlush           WCOpcode = 8
	WCAtomicWrite     WCOpcode = 9
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
)

var wcOpcodeNames = map[WCOpcode]string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV", WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE", WCRecv: "RECV", WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM",
}

// String returns the name that libibverbs has, without its prefix.
func (o WCOpcode) String() string {
	if s, ok := wcOpcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("WC_OPCODE(%d)", uint8(o))
}

// WCFlags say what a completion holds. The numbers are those of libibverbs.
type WCFlags uint8

// The flags of completions.
const (
	WCGRH     WCFlags = 1 << 0 // the receive begins with 40 bytes of GRH: see [roce.GRH]
	WCWithImm WCFlags = 1 << 1 // Imm is immediate data
	WCWithInv WCFlags = 1 << 3 // Imm is the key that was invalidated
)
