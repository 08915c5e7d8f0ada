package dmacopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/side"
	"github.com/gantry-rdma/gantry/mem"
)

// serviceName is under which both sides meet.
const serviceName = "dma_copy_server"

// A session is one side of one copy: what the host and the DPU have in common.
// Everything happens on the goroutine that called Run, the larger part of it in
// callbacks.
type session struct {
	Options
	ctx    context.Context
	engine *core.Engine
	device *device.Device
	part   part              // what the sides do differently
	conn   *comch.Connection // nil until the sides have met

	src   *source // of the side that has the file
	dst   *sink   // of the side that gets it
	begin time.Time
	size  int64
	chunk int   // bytes of one, but for the last
	count int64 // chunks of the file
	moved int64 // of them, how many this side is through with

	agreed bool // the peer's DIRECTION has come
	theirs *status
	ending bool // the connection is over, and the reason why is still to come
	over   bool // all went well
	result Result
	err    error // the first one: from then on nothing is begun
}

// A part is what a side does differently from the other one.
type part interface {
	// open opens the device and makes an end of the channel.
	open() error
	// meet waits for the peer. It sets the connection of the session.
	meet(ctx context.Context) error
	// alloc takes a task that sends a message on a connection.
	alloc(c *comch.Connection, message []byte) (*comch.Send, error)
	// begin sets the copy of a file that is not empty in motion.
	begin() error
	// take handles a message about the copy, and reports false if it is none
	// that this side gets now.
	take(message []byte) (bool, error)
	// lost reports whether the peer is gone.
	lost() error
	// leave ends the channel. What was sent still arrives.
	leave(ctx context.Context) error
	// close gives back what open and begin took.
	close() error
}

func newSession(o Options) *session {
	s := &session{Options: o, chunk: o.chunk}
	if o.Side == DPU {
		s.part = &dpu{session: s}
	} else {
		s.part = &host{session: s}
	}
	return s
}

// run goes through the phases of a copy.
func (s *session) run(ctx context.Context) (err error) {
	s.ctx = ctx
	if err := s.openFile(); err != nil {
		return err
	}
	if s.engine, err = core.NewEngine(); err != nil {
		return err
	}
	if err := s.part.open(); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, s.leave()) }()
	if err := s.meet(ctx); err != nil {
		return err
	}
	if s.keep(s.tell(s.direction().encode())); s.err == nil {
		s.keep(s.engine.Run(ctx, s.finished))
	}
	if ctx.Err() != nil {
		s.err = ctx.Err()
		s.apologise("it was interrupted")
	} else if s.err != nil && (s.theirs == nil || s.theirs.good) {
		s.apologise(s.err.Error())
	}
	return s.err
}

// openFile opens the file, or finds out whether it can be made.
func (s *session) openFile() (err error) {
	if !s.Overwrite {
		if s.src, err = openSource(s.File); s.src != nil || err != nil {
			return err
		}
	}
	return try(s.File)
}

// meet waits for the other side as long as it may.
func (s *session) meet(ctx context.Context) error {
	wait := ctx
	if s.Wait > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, s.Wait)
		defer cancel()
	}
	err := s.part.meet(wait)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil && err != nil:
		return fmt.Errorf("nobody came to the %s side in %v: start the other side: %w", s.Side.Other(), s.Wait, core.ErrTimeOut)
	}
	return err
}

// finished is asked by the engine's loop.
func (s *session) finished() bool {
	if s.err == nil && !s.over {
		s.err = s.part.lost()
	}
	return s.err != nil || s.over
}

func (s *session) direction() direction {
	if s.src == nil {
		return direction{}
	}
	return direction{true, s.src.file.Info.Mode(), s.src.file.Size}
}

// receive is called for every message of the peer. When its end is known only
// its last word counts.
func (s *session) receive(m []byte) {
	if last := s.ending && len(m) > 0 && m[0] == kindStatus; s.deaf() && !last {
		return
	}
	ok, err := s.handle(m)
	if !ok && err == nil {
		err = fmt.Errorf("the other side sent a message that makes no sense here: %w", core.ErrUnexpected)
	}
	s.keep(err)
}

// handle reports false for a message that is wrong or comes at a wrong time.
func (s *session) handle(m []byte) (ok bool, err error) {
	switch {
	case len(m) == 0:
		return false, nil
	case m[0] == kindDirection:
		d, ok := parseDirection(m)
		if !ok || s.agreed {
			return false, nil
		}
		return true, s.agree(d)
	case m[0] == kindStatus:
		st, ok := parseStatus(m)
		if !ok || s.theirs != nil {
			return false, nil
		}
		return s.hear(&st)
	case s.count == 0:
		return false, nil
	}
	return s.part.take(m)
}

// agree decides who sends, and begins.
func (s *session) agree(peer direction) (err error) {
	s.agreed, s.begin = true, time.Now()
	switch {
	case s.src != nil && peer.has:
		return fmt.Errorf("both sides have a file of the name that they were given: remove one, or add --overwrite on the side that is to get the file: %w", core.ErrAlreadyExists)
	case s.src == nil && !peer.has:
		return absent(s.File)
	case s.src != nil:
		s.size = s.src.file.Size
		s.result = Result{File: s.File, From: s.Side, To: s.Side.Other()}
	default:
		if _, err := os.Lstat(s.File); err == nil && !s.Overwrite {
			return fmt.Errorf("%s was made while this side waited: remove it, or add --overwrite: %w", s.File, core.ErrAlreadyExists)
		}
		if s.dst, err = newSink(s.File, peer.perm, peer.size); err != nil {
			return err
		}
		s.size = peer.size
		s.result = Result{File: s.dst.file.Path, From: s.Side.Other(), To: s.Side}
	}
	s.result.Bytes = s.size
	s.count = s.chunks()
	if s.count == 0 {
		return s.advance()
	}
	return s.part.begin()
}

// chunks returns how many chunks the file has.
func (s *session) chunks() int64 {
	n := s.size / int64(s.chunk)
	if s.size%int64(s.chunk) != 0 {
		n++
	}
	return n
}

// length returns how many bytes chunk n has.
func (s *session) length(n int64) int {
	return int(min(int64(s.chunk), s.size-n*int64(s.chunk)))
}

// through counts a chunk that this side is through with.
func (s *session) through() error {
	s.moved++
	s.Progress(min(s.moved*int64(s.chunk), s.size), s.size)
	return s.advance()
}

// advance goes on when this side is through with all chunks: a source tells so
// and waits for the sink; a sink waits for the source to tell, and finishes.
func (s *session) advance() (err error) {
	switch {
	case s.moved < s.count:
		return nil
	case s.src != nil:
		if err := s.check(s.src.verify); err != nil {
			return err
		}
		return s.tell(status{good: true, sum: s.src.sum}.encode())
	case s.theirs == nil:
		return nil
	case s.theirs.sum != s.dst.sum:
		return fmt.Errorf("the checksum of what was written is %08x, and %08x was read on the other side: %w", s.dst.sum, s.theirs.sum, core.ErrUnexpected)
	}
	if err := s.check(s.dst.verify); err != nil {
		return err
	}
	if err := s.dst.file.Commit(); err != nil {
		return err
	}
	s.end(s.dst.sum)
	_ = s.tell(status{good: true, sum: s.dst.sum}.encode()) // a source that is gone has done its part
	return nil
}

// check does what Verify asks for.
func (s *session) check(verify func(context.Context) error) error {
	if !s.Verify {
		return nil
	}
	begin := time.Now()
	err := verify(s.ctx)
	s.result.Verified, s.result.Checking = err == nil, time.Since(begin)
	return err
}

// hear takes the peer's word on how it went.
func (s *session) hear(st *status) (bool, error) {
	s.theirs = st
	switch {
	case !st.good:
		return true, fmt.Errorf("the other side gave up: %s: %w", st.reason, core.ErrConnectionAborted)
	case !s.agreed || s.moved < s.count:
		return false, nil // the last chunk comes before the end
	case s.src == nil:
		return true, s.advance()
	case st.sum != s.src.sum:
		return false, nil
	}
	s.end(st.sum)
	return true, nil
}

// end notes that all went well.
func (s *session) end(sum uint32) {
	s.over = true
	s.result.Checksum, s.result.Copying = sum, time.Since(s.begin)
}

// tell sends a message. There are tasks enough: a chunk is not sent again
// before it was answered.
func (s *session) tell(m []byte) error { return s.tellOn(s.conn, m) }

func (s *session) tellOn(c *comch.Connection, m []byte) error {
	t, err := s.part.alloc(c, m)
	if err != nil {
		return err
	}
	if err := t.Submit(); err != nil {
		return errors.Join(err, t.Free())
	}
	return nil
}

// sent is the callback of sends, good and bad ones: what became of the peer is
// found out elsewhere.
func (s *session) sent(t *comch.Send) { s.keep(t.Free()) }

// sendTasks is for all slots to be on their way, and for a few words more.
const sendTasks = 2*maxSlots + 16

// apologise tells the other side, if it is there, why this one ends.
func (s *session) apologise(reason string) {
	_ = s.tell(status{reason: reason}.encode()) // and if not, there is nobody to be told
}

// leave ends the channel.
func (s *session) leave() error { return side.Leave(s.part.leave, s.conn) }

// close takes apart what run made.
func (s *session) close() (err error) {
	core.KeepFirst(&err, s.part.close())
	if s.engine != nil {
		core.KeepFirst(&err, s.engine.Destroy())
	}
	if s.device != nil {
		core.KeepFirst(&err, s.device.Close())
	}
	if s.src != nil {
		core.KeepFirst(&err, s.src.file.Close())
	}
	if s.dst != nil {
		core.KeepFirst(&err, s.dst.file.Discard())
	}
	return err
}

// keep remembers the first error. One that only follows from the end of the
// connection is not kept: what the other side sent before may say more, and the
// end is reported behind that.
func (s *session) keep(err error) {
	if err != nil && s.conn != nil && s.conn.Err() != nil && follows(err) {
		s.ending = true
		return
	}
	core.KeepFirst(&s.err, err)
}

// follows reports whether an error may say no more than that the connection has
// ended, or the other side's memory with it: whichever call meets the end
// first.
func follows(err error) bool {
	switch core.StatusOf(err) {
	case core.ErrConnectionReset, core.ErrBadState, core.ErrIOFailed, core.ErrNotPermitted, core.ErrInvalidValue:
		return true
	}
	return false
}

// deaf reports whether nothing more is done about the copy.
func (s *session) deaf() bool { return s.err != nil || s.over || s.ending }

// gone says that the peer left.
func (s *session) gone(err error) error {
	if err == nil {
		err = core.ErrConnectionReset
	}
	return fmt.Errorf("the other side ended before the copy was complete: %w", err)
}

// memory takes memory for a window of this side.
func (s *session) memory(n int, o mem.AllocOptions, a mem.Access) (*mem.Map, error) {
	m, err := mem.NewMap()
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return m.Allocate(n, o) },
		func() error { return m.SetAccess(a) },
		func() error { return m.AddDevice(s.device) },
		m.Start,
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, m.Destroy())
		}
	}
	return m, nil
}
