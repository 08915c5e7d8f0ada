package frame

import "testing"

type owner struct{ back int }

func (o *owner) FrameBack(*Frame) { o.back++ }

func TestFrameComesBackOnce(t *testing.T) {
	o := new(owner)
	f := &Frame{Owner: o}
	f.Back() // was never handed over
	if !f.Handed() || f.Handed() {
		t.Error("want the first hand-over to be the only one")
	}
	f.Back()
	f.Back()
	if o.back != 1 {
		t.Errorf("the owner got it back %d times, want 1", o.back)
	}
	if !f.Handed() {
		t.Error("a frame that is back cannot be handed over again")
	}
}

func TestResetKeepsTheBackingArray(t *testing.T) {
	f := &Frame{Payload: make([][]byte, 0, 4), HeadLen: 12, Pad: 3, Len: 9, Token: 7}
	f.Payload = append(f.Payload, []byte("abc"), []byte("def"))
	f.Reset()
	if len(f.Payload) != 0 || cap(f.Payload) != 4 || f.HeadLen != 0 || f.Pad != 0 || f.Len != 0 || f.Token != 0 {
		t.Errorf("after reset: %+v", f)
	}
	if f.Payload[:2][0] != nil {
		t.Error("reset keeps memory that was borrowed")
	}
}
