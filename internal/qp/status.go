package qp

// A Status is how a work request ended. The numbers are those of verbs.
type Status uint8

// The statuses that a reliable connection has.
const (
	StatusSuccess       Status = 0
	StatusLocLen        Status = 1  // the message does not fit the local memory
	StatusLocQPOp       Status = 2  // the work request is not one that can be executed
	StatusLocProt       Status = 4  // a scatter entry names memory that may not be used like that
	StatusFlushed       Status = 5  // the queue pair failed before its turn
	StatusMWBind        Status = 6  // the memory window may not be bound like that
	StatusBadResponse   Status = 7  // the response does not fit the request
	StatusRemInvRequest Status = 9  // the peer refuses the request
	StatusRemAccess     Status = 10 // the peer refuses access to its memory
	StatusRemOp         Status = 11 // the peer could not finish
	StatusRetryExceeded Status = 12 // no answer after all retries
	StatusRNRExceeded   Status = 13 // no receive posted after all retries
	StatusGeneral       Status = 21 // the completion queue is full, or the device gave up
	statusNamesCount           = 22
	statusUnknown              = "UNKNOWN"
)

var statusNames = [statusNamesCount]string{
	StatusSuccess: "SUCCESS", StatusLocLen: "LOC_LEN_ERR", StatusLocQPOp: "LOC_QP_OP_ERR",
	StatusLocProt: "LOC_PROT_ERR", StatusFlushed: "WR_FLUSH_ERR", StatusBadResponse: "BAD_RESP_ERR",
	StatusRemInvRequest: "REM_INV_REQ_ERR", StatusRemAccess: "REM_ACCESS_ERR", StatusRemOp: "REM_OP_ERR",
	StatusMWBind: "MW_BIND_ERR", StatusRetryExceeded: "RETRY_EXC_ERR", StatusRNRExceeded: "RNR_RETRY_EXC_ERR", StatusGeneral: "GENERAL_ERR",
}

// String returns the name that verbs give the status.
func (s Status) String() string {
	if int(s) < len(statusNames) && statusNames[s] != "" {
		return statusNames[s]
	}
	return statusUnknown
}
