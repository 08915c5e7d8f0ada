package verbs_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// Danger 1: nothing on the wire holds the payloads of UC and UD in order, so if
// two runs of one half could be at work at once, what lies above in memory
// would be chance.

const (
	burstLen  = 16
	writeSize = 2500
	shift     = 100 // each begins so many bytes behind the one before
)

// several runs f for connections of their own, at the same time.
func several(t *testing.T, da, db *Device, typ QPType, f func(r *rig)) {
	t.Helper()
	var all sync.WaitGroup
	for range 4 {
		s := unreliable(typ)
		s.cap.MaxInline = 0
		r := newRig(t, da, db, s)
		all.Go(func() { f(r) })
	}
	all.Wait()
}

func TestUCWritesIntoOneTargetKeepTheirOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		several(t, da, db, UC, func(r *rig) {
			want := make([]byte, writeSize+burstLen*shift)
			for round := range 40 {
				for i := range burstLen {
					at := i * writeSize
					copy(r.a.mem[at:], bytes.Repeat([]byte{byte(round*burstLen + i)}, writeSize))
					copy(want[i*shift:], r.a.mem[at:at+writeSize])
				}
				r.b.recv(RecvWR{ID: uint64(round)})
				for i := range burstLen {
					wr := SendWR{Opcode: WRRDMAWrite, SG: []SGE{r.a.mr.SGE(i*writeSize, writeSize)},
						RemoteAddr: r.b.mr.Addr() + uint64(i*shift), RKey: r.b.mr.RKey()}
					if i == burstLen-1 {
						wr.Opcode, wr.Flags = WRRDMAWriteWithImm, Signaled
					}
					r.a.send(wr)
				}
				r.a.good(r.a.scq)
				r.b.good(r.b.cq)
				// The last of them covers the end of all others.
				if last := (burstLen - 1) * shift; !bytes.Equal(r.b.mem[:last+writeSize], want[:last+writeSize]) {
					r.t.Errorf("round %d: an earlier write lies above a later one", round)
					return
				}
			}
		})
	})
}

func TestUCSendsIntoOneTargetKeepTheirOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		several(t, da, db, UC, func(r *rig) { r.sendOver(writeSize) })
	})
}

func TestUDSendsIntoOneTargetKeepTheirOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		several(t, da, db, UD, func(r *rig) { r.sendOver(1000) })
	})
}

// sendOver sends messages whose receives overlap.
func (r *rig) sendOver(size int) {
	const target = 65536
	want := make([]byte, size+burstLen*shift)
	for round := range 40 {
		for i := range burstLen {
			at := i * size
			copy(r.a.mem[at:], bytes.Repeat([]byte{byte(round*burstLen + i)}, size))
			copy(want[i*shift:], r.a.mem[at:at+size])
			into := []SGE{r.b.mr.SGE(target+i*shift, size)}
			if r.a.ah != nil {
				into = []SGE{r.b.mr.SGE(0, roce.GRHLen), into[0]}
			}
			r.b.recv(RecvWR{ID: uint64(i), SG: into})
		}
		for i := range burstLen {
			wr := SendWR{Opcode: WRSend, SG: []SGE{r.a.mr.SGE(i*size, size)},
				AH: r.a.ah, RemoteQPN: r.b.qp.Num(), RemoteQKey: 0x1234}
			if i == burstLen-1 {
				wr.Flags = Signaled
			}
			r.a.send(wr)
		}
		r.a.good(r.a.scq)
		for i := range burstLen {
			if wc := r.b.good(r.b.cq); wc.ID != uint64(i) {
				r.t.Errorf("round %d: got receive %d, want %d", round, wc.ID, i)
				return
			}
		}
		if last := (burstLen - 1) * shift; !bytes.Equal(r.b.mem[target:target+last+size], want[:last+size]) {
			r.t.Errorf("round %d: an earlier message lies above a later one", round)
			return
		}
	}
}

// A program owns its memory again with the completion: what it writes then must
// not reach a peer that has not looked yet.
func TestAStalledReceiverSeesWhatWasSent(t *testing.T) {
	for _, typ := range []QPType{UC, UD} {
		for _, e := range executors {
			name := map[QPType]string{UC: "UC/", UD: "UD/"}[typ] + e.name
			t.Run(name+"/memory", func(t *testing.T) {
				sender, stalled := e.make(), work.NewInline()
				da, db, err := OpenPair(Config{Executor: sender}, Config{Executor: stalled})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { da.Close(); db.Close(); sender.Close(); stalled.Close() }()
				stall(t, da, db, typ)
			})
			t.Run(name+"/udp", func(t *testing.T) {
				sender, stalled := e.make(), work.NewInline()
				t.Cleanup(func() { sender.Close(); stalled.Close() })
				stall(t, udpOn(t, 1, sender), udpOn(t, 2, stalled), typ)
			})
		}
	}
}

// stall sends to db, which is driven by nobody, and overwrites each message when
// it has completed.
func stall(t *testing.T, da, db *Device, typ QPType) {
	t.Helper()
	r := newRig(t, da, db, unreliable(typ))
	const n, size = 8, 900
	for i := range n {
		fill(r.a.mem[i*size:][:size], i)
		r.b.recv(RecvWR{ID: uint64(i), SG: []SGE{r.b.mr.SGE(i*2000, 2000)}})
		r.a.send(SendWR{ID: uint64(i), Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(i*size, size)},
			AH: r.a.ah, RemoteQPN: r.b.qp.Num(), RemoteQKey: 0x1234})
	}
	done := 0
	reap := func() {
		var wc [n]WC
		for _, c := range wc[:r.a.scq.Poll(wc[:])] {
			if c.Status != WCSuccess || int(c.ID) != done {
				t.Fatalf("got %+v, want completion %d", c, done)
			}
			clear(r.a.mem[done*size:][:size])
			done++
		}
	}
	for range 2000 { // over UDP they complete, through memory they cannot
		reap()
	}
	want := make([]byte, size)
	grh := 0
	if typ == UD {
		grh = roce.GRHLen
	}
	for i := range n {
		wc := r.b.good(r.b.cq)
		fill(want, i)
		if got := r.b.mem[i*2000+grh:][:size]; wc.ID != uint64(i) || !bytes.Equal(got, want) {
			t.Errorf("message %d: got bytes that were written after its completion", i)
		}
	}
	until(t, "the completions", func() bool { db.Drive(0); reap(); return done == n })
}
