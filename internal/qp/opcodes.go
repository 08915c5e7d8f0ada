package qp

import "github.com/gantry-rdma/gantry/roce"

// Where a packet stands in its message.
const (
	firstPacket = iota
	middlePacket
	lastPacket
	onlyPacket
)

// position returns where a packet stands.
func position(first, last bool) int {
	switch {
	case first && last:
		return onlyPacket
	case first:
		return firstPacket
	case last:
		return lastPacket
	}
	return middlePacket
}

// requestOpcodes has the opcode of each packet of each operation. READs,
// atomics and FLUSHes are one packet.
var requestOpcodes = [opCount][4]roce.Opcode{
	OpSend:        {roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLast, roce.RCSendOnly},
	OpSendImm:     {roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastImm, roce.RCSendOnlyImm},
	OpSendInv:     {roce.RCSendFirst, roce.RCSendMiddle, roce.RCSendLastInv, roce.RCSendOnlyInv},
	OpWrite:       {roce.RCWriteFirst, roce.RCWriteMiddle, roce.RCWriteLast, roce.RCWriteOnly},
	OpWriteImm:    {roce.RCWriteFirst, roce.RCWriteMiddle, roce.RCWriteLastImm, roce.RCWriteOnlyImm},
	OpRead:        {onlyPacket: roce.RCReadRequest},
	OpCompareSwap: {onlyPacket: roce.RCCompareSwap},
	OpFetchAdd:    {onlyPacket: roce.RCFetchAdd},
	OpAtomicWrite: {onlyPacket: roce.RCAtomicWrite},
	OpFlush:       {onlyPacket: roce.RCFlush},
}

// readResponseOpcodes has those of the answer to a READ.
var readResponseOpcodes = [4]roce.Opcode{
	roce.RCReadResponseFirst, roce.RCReadResponseMiddle, roce.RCReadResponseLast, roce.RCReadResponseOnly,
}

// completedAs has what a completion calls each operation.
var completedAs = [opCount]Op{
	OpSend: OpSend, OpSendImm: OpSend, OpSendInv: OpSend, OpWrite: OpWrite, OpWriteImm: OpWrite,
	OpRead: OpRead, OpCompareSwap: OpCompareSwap, OpFetchAdd: OpFetchAdd,
	OpAtomicWrite: OpAtomicWrite, OpFlush: OpFlush, OpLocalInv: OpLocalInv, OpBindMW: OpBindMW,
}
