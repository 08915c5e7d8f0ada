//go:build linux

package interop

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/kit"
	"github.com/gantry-rdma/gantry/verbs"
)

// operationRows have each operation of RC asked for by Gantry, and by the
// kernel.
func (r *rig) operationRows(t *testing.T) {
	r.run(t, "write by Gantry", good, func(x *row) { x.ask(verbs.WRRDMAWrite, plan{}, 5000) })
	r.run(t, "write by the kernel", good, func(x *row) { x.answer("write", plan{}, 5000) })
	r.run(t, "read by Gantry", good, func(x *row) { x.ask(verbs.WRRDMARead, plan{}, 5000) })
	r.run(t, "read by the kernel", good, func(x *row) { x.answer("read", plan{}, 5000) })
	r.run(t, "immediate by Gantry", good, (*row).immediateOut)
	r.run(t, "immediate by the kernel", good, (*row).immediateIn)
	r.run(t, "atomics by Gantry", good, (*row).atomicsOut)
	r.run(t, "atomics by the kernel", good, (*row).atomicsIn)
	r.run(t, "SRQ of Gantry", good, (*row).sharedReceives)
	r.run(t, "SRQ of the kernel", good, func(x *row) {
		e := x.join(plan{keys: []string{"srq=1"}, steps: []string{"recv=0,4096", "recv=4096,4096", "wait=2", "check=0,3000,1", "check=4096,3000,2"}})
		e.sendTwo()
		e.finish()
	})
	r.run(t, "ibv_srq_pingpong client", good, func(x *row) { x.sharedPingpong(false) })
	r.run(t, "ibv_srq_pingpong server", good, func(x *row) { x.sharedPingpong(true) })
	// 4096 packets each, across the end of the packet numbers.
	for _, w := range []struct {
		name    string
		weather kit.Weather
	}{{"", good}, {" loss", kit.Weather{Loss: 0.003, Seed: 5}}, {" reordering", kit.Weather{Reorder: 0.002, Seed: 6}}} {
		if mode == "short" && w.weather != good {
			continue
		}
		wrap := plan{mtu: 256, psn: 0xfff800}
		r.run(t, "large write by Gantry, PSN wraps"+w.name, w.weather, func(x *row) { x.ask(verbs.WRRDMAWrite, wrap, 1<<20) })
		r.run(t, "large write by the kernel, PSN wraps"+w.name, w.weather, func(x *row) { x.answer("write", wrap, 1<<20) })
		r.run(t, "large read by Gantry, PSN wraps"+w.name, w.weather, func(x *row) { x.ask(verbs.WRRDMARead, wrap, 1<<20) })
		r.run(t, "large read by the kernel, PSN wraps"+w.name, w.weather, func(x *row) { x.answer("read", wrap, 1<<20) })
	}
	if mode == "short" {
		return
	}
	for _, b := range bad {
		r.run(t, "read by Gantry IPv6 "+b.name, b.weather, func(x *row) { x.ask(verbs.WRRDMARead, plan{six: true}, 300000) })
		r.run(t, "read by the kernel IPv6 "+b.name, b.weather, func(x *row) { x.answer("read", plan{six: true}, 300000) })
		r.run(t, "atomics by Gantry "+b.name, b.weather, (*row).atomicsOut)
		r.run(t, "atomics by the kernel "+b.name, b.weather, (*row).atomicsIn)
	}
}

// ask has Gantry move n bytes with a WRITE or READ.
func (x *row) ask(op verbs.Opcode, p plan, n int) {
	if op == verbs.WRRDMARead {
		p.steps = []string{fmt.Sprintf("fill=4096,%d,9", n), "go"}
	} else {
		p.steps = []string{"go", fmt.Sprintf("check=4096,%d,9", n)}
	}
	e := x.join(p)
	if op == verbs.WRRDMAWrite {
		e.fill(0, n, 9)
	}
	e.post(e.to(op, 0, n, 4096))
	e.wait(verbs.WCSuccess)
	if op == verbs.WRRDMARead {
		e.same(0, n, 9)
	}
	e.release()
	e.finish()
}

// answer has the guest move n bytes with a WRITE or READ.
func (x *row) answer(op string, p plan, n int) {
	p.steps = []string{fmt.Sprintf("fill=0,%d,9", n), "go", fmt.Sprintf("%s=0,%d,4096", op, n), "wait=1"}
	if op == "read" {
		p.steps = append([]string{"go"}, append(p.steps[2:], fmt.Sprintf("check=0,%d,3", n))...)
	}
	e := x.join(p)
	e.fill(4096, n, 3)
	e.release()
	e.finish()
	if op == "write" {
		e.same(4096, n, 9)
	}
}

// immediateOut sends SENDs and WRITEs with immediate data.
func (x *row) immediateOut() {
	e := x.join(plan{steps: []string{"recv=0,4096", "recv=8192,4096", "recv=16384,0", "wait=3", "check=0,1500,1", "check=32768,1500,1"}})
	e.fill(0, 1500, 1)
	send, write, empty := e.send(0, 1500), e.to(verbs.WRRDMAWriteWithImm, 0, 1500, 32768), e.to(verbs.WRRDMAWriteWithImm, 0, 0, 0)
	send.Opcode, send.Imm, write.Imm, empty.Imm = verbs.WRSendWithImm, 0xabcd0001, 0xabcd0002, 0xabcd0003
	e.post(send, write, empty)
	for range 3 {
		e.wait(verbs.WCSuccess)
	}
	e.finish()
	for _, v := range []string{"0xabcd0001", "0xabcd0002", "0xabcd0003"} {
		if !strings.Contains(e.peer.Output(), "immediate "+v) {
			x.t.Errorf("the guest has not seen %s: %s", v, e.peer.Output())
		}
	}
}

// immediateIn receives them.
func (x *row) immediateIn() {
	e := x.join(plan{steps: []string{"fill=0,1500,1", "go", "send=0,1500,0xabcd0001", "write=0,1500,32768,0xabcd0002", "write=0,0,0,0xabcd0003", "wait=3"}})
	for i := range 3 {
		e.receive(i*4096, 4096)
	}
	e.release()
	for i := range 3 {
		if wc := e.wait(verbs.WCSuccess); wc.Imm != 0xabcd0001+uint32(i) || wc.Flags&verbs.WCWithImm == 0 {
			x.t.Errorf("completion %d has immediate %#x, flags %#x", i, wc.Imm, wc.Flags)
		}
	}
	e.finish()
	e.same(0, 1500, 1)
	e.same(32768, 1500, 1)
}

// atomicCount is how often a value is added.
const atomicCount = 20

// atomicsOut adds to a value of the guest, and exchanges it.
func (x *row) atomicsOut() {
	e := x.join(plan{steps: []string{"go", "value=4096,0x1234567890abcdef"}})
	for i := range atomicCount {
		wr := e.to(verbs.WRAtomicFetchAndAdd, i*8, 8, 4096)
		wr.Add = 0x100000001
		e.post(wr)
	}
	for range atomicCount {
		e.wait(verbs.WCSuccess)
	}
	for i := range uint64(atomicCount) {
		if v := binary.LittleEndian.Uint64(e.mem[i*8:]); v != i*0x100000001 {
			x.t.Errorf("addition %d found %#x", i, v)
		}
	}
	no, yes := e.to(verbs.WRAtomicCmpAndSwp, 1024, 8, 4096), e.to(verbs.WRAtomicCmpAndSwp, 1032, 8, 4096)
	no.Compare, no.Swap = 1, 2
	yes.Compare, yes.Swap = atomicCount*0x100000001, 0x1234567890abcdef
	e.post(no, yes)
	e.wait(verbs.WCSuccess)
	e.wait(verbs.WCSuccess)
	for _, off := range []int{1024, 1032} {
		if v := binary.LittleEndian.Uint64(e.mem[off:]); v != atomicCount*0x100000001 {
			x.t.Errorf("exchange found %#x", v)
		}
	}
	e.release()
	e.finish()
}

// atomicsIn has the guest do the same here.
func (x *row) atomicsIn() {
	steps := []string{"go"}
	for i := range atomicCount {
		steps = append(steps, fmt.Sprintf("add=%d,4096,0x100000001", i*8))
	}
	steps = append(steps, fmt.Sprintf("wait=%d", atomicCount))
	for i := range uint64(atomicCount) {
		steps = append(steps, fmt.Sprintf("value=%d,%d", i*8, i*0x100000001))
	}
	steps = append(steps, "cas=1024,4096,1,2", fmt.Sprintf("cas=1032,4096,%d,0x1234567890abcdef", uint64(atomicCount*0x100000001)), "wait=2")
	e := x.join(plan{steps: steps})
	e.release()
	e.finish()
	if v := binary.LittleEndian.Uint64(e.mem[4096:]); v != 0x1234567890abcdef {
		x.t.Errorf("the value is %#x", v)
	}
}

// sendTwo sends two messages.
func (e *end) sendTwo() {
	e.fill(0, 3000, 1)
	e.fill(4096, 3000, 2)
	e.post(e.send(0, 3000), e.send(4096, 3000))
	e.wait(verbs.WCSuccess)
	e.wait(verbs.WCSuccess)
}

// sharedReceives takes messages of the guest from a shared receive queue.
func (x *row) sharedReceives() {
	e := x.join(plan{srq: true, steps: []string{"fill=0,3000,1", "fill=4096,3000,2", "go", "send=0,3000", "send=4096,3000", "wait=2"}})
	e.receive(0, 4096)
	e.receive(4096, 4096)
	e.release()
	e.wait(verbs.WCSuccess)
	e.wait(verbs.WCSuccess)
	e.finish()
	e.same(0, 3000, 1)
	e.same(4096, 3000, 2)
}

// waitRows let one end wait for the other: for an answer that is slow, and for a
// receive.
func (r *rig) waitRows(t *testing.T) {
	for _, six := range []bool{false, true} {
		r.run(t, "no retransmission with timeout 20 "+family(six), good, func(x *row) { x.patient(six) })
	}
	r.run(t, "RNR at the kernel", good, func(x *row) {
		e := x.join(plan{steps: []string{"sleep=300", "recv=0,4096", "wait=1", "check=0,3000,7"}})
		e.fill(0, 3000, 7)
		e.post(e.send(0, 3000))
		e.wait(verbs.WCSuccess)
		e.finish()
	})
	r.run(t, "RNR at Gantry", good, func(x *row) {
		e := x.join(plan{steps: []string{"fill=0,3000,7", "go", "send=0,3000", "wait=1"}})
		e.release()
		x.awaitCounter(e, "send_rnr_err")
		e.receive(0, 4096)
		e.wait(verbs.WCSuccess)
		e.finish()
		e.same(0, 3000, 7)
	})
	r.run(t, "RNR without end at the kernel", good, func(x *row) {
		e := x.join(plan{rnrRetry: 2, steps: []string{"go"}})
		e.post(e.send(0, 100))
		e.wait(verbs.WCRNRRetryExc)
		e.release()
		e.finish()
	})
	r.run(t, "RNR without end at Gantry", good, func(x *row) {
		e := x.join(plan{keys: []string{"rnr=2"}, steps: []string{"go", "send=0,100", "fail=13"}})
		e.release()
		e.finish()
	})
}

// patient moves a megabyte each way with a local ACK timeout of 4.3 s at both
// ends.
func (x *row) patient(six bool) {
	e := x.join(plan{six: six, timeout: 20, keys: []string{"timeout=20"}, steps: []string{"go", "check=4096,1048576,9", "write=0,1048576,0", "wait=1"}})
	e.fill(0, 1<<20, 9)
	e.post(e.to(verbs.WRRDMAWrite, 0, 1<<20, 4096))
	e.wait(verbs.WCSuccess)
	e.release()
	e.finish()
	x.calm = true
}

// ackTimeout is that of patient.
const ackTimeout = 4096 << 20 * time.Nanosecond

// quiet wants nothing to have been sent again that a stall of the guest does not
// explain: single packets with which Gantry asks for an answer that is late, and
// whatever follows when the guest has stood still for the ACK timeout.
func (x *row) quiet(tally [2]kit.Tally) {
	x.t.Helper()
	g, k := tally[kit.ToGuest], tally[kit.ToHost]
	probes := int(x.ours["probe"])
	switch {
	case g.Silence >= ackTimeout:
		x.note = fmt.Sprintf("the guest stood still for %.1f s; Gantry sent %d packets again, and the kernel %d", g.Silence.Seconds(), g.Again, k.Again)
	case g.Again > probes || k.Again > 0:
		x.t.Errorf("Gantry sent %d packets again, %d of them probes, and the kernel %d, and the guest was never silent for more than %v", g.Again, probes, k.Again, g.Silence)
	case g.Again > 0:
		x.note = fmt.Sprintf("nothing sent again but %d probes, %.1f ms after the packet or later; the guest was silent for up to %.0f ms",
			g.Again, g.Overdue.Seconds()*1e3, g.Silence.Seconds()*1e3)
	default:
		x.note = "nothing sent again"
	}
}

// errorRows let one end be silent, or do what is not allowed.
func (r *rig) errorRows(t *testing.T) {
	r.run(t, "the kernel stops answering", good, func(x *row) {
		e := x.join(plan{timeout: 15, retry: 3, steps: []string{"recv=0,4096", "go"}})
		e.post(e.send(0, 100))
		e.wait(verbs.WCSuccess)
		e.peer.Kill()
		x.gone = true
		begin := time.Now()
		e.post(e.send(0, 100))
		e.wait(verbs.WCRetryExc)
		x.note = fmt.Sprintf("after %.1f s", time.Since(begin).Seconds())
	})
	r.run(t, "Gantry stops answering", good, func(x *row) {
		e := x.join(plan{keys: []string{"timeout=14", "retry=3"}, steps: []string{"go", "write=0,100,0", "wait=1", "sleep=10", "write=0,100,0", "fail=12"}})
		x.after(func() { x.wire.SetWeather(good) })
		e.mem[0] = 1
		e.release()
		x.must(e.peer.Await(x.ctx, "completion"))
		x.wire.SetWeather(kit.Weather{Cut: true})
		e.finish()
	})
	r.run(t, "wrong key at the kernel", good, func(x *row) {
		e := x.join(plan{steps: []string{"go"}})
		wr := e.to(verbs.WRRDMAWrite, 0, 100, 0)
		wr.RKey ^= 0x5a
		e.post(wr)
		e.wait(verbs.WCRemAccessErr)
		e.release()
		e.finish()
		x.gone = true
	})
	r.run(t, "outside the region of Gantry", good, func(x *row) {
		e := x.join(plan{steps: []string{"go", fmt.Sprintf("write=0,100,%d", memory-50), "fail=10"}})
		e.release()
		e.finish()
		x.gone = true
	})
	r.run(t, "too long for the receive at the kernel", good, func(x *row) {
		e := x.join(plan{steps: []string{"recv=0,100", "go"}})
		e.post(e.send(0, 3000))
		if wc := e.waitAny(); wc.Status != verbs.WCRemInvReqErr && wc.Status != verbs.WCRemOpErr {
			x.t.Errorf("completed with %v", wc.Status)
		}
		e.release()
		e.finish()
		x.gone = true
	})
}
