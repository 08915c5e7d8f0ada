package core

import (
	"errors"
	"fmt"
	"testing"
)

func TestStatusTableIsComplete(t *testing.T) {
	codes := []Status{ErrFlushed}
	for s := Success; s <= ErrDeviceFatal; s++ {
		codes = append(codes, s)
	}
	names := map[string]Status{}
	for _, s := range codes {
		if s.Name() == unrecognized || s.Description() == unrecognized {
			t.Errorf("code %d has no text", uint8(s))
		}
		if other, ok := names[s.Name()]; ok {
			t.Errorf("codes %d and %d are both called %s", other, s, s.Name())
		}
		names[s.Name()] = s
	}
	if got, want := len(statusText), len(codes); got != want {
		t.Errorf("the table has %d rows, want %d", got, want)
	}
}

func TestStatusNumbersAreDOCAs(t *testing.T) {
	for s, want := range map[Status]int{
		Success: 0, ErrUnknown: 1, ErrInUse: 3, ErrAgain: 5, ErrInvalidValue: 6, ErrNoMemory: 7,
		ErrNotConnected: 14, ErrNotFound: 16, ErrIOFailed: 17, ErrBadState: 18, ErrUnexpected: 22,
		ErrInProgress: 26, ErrTooBig: 27, ErrDeviceFatal: 31, ErrFlushed: 17,
	} {
		if got := s.Code(); got != want {
			t.Errorf("%v: code %d, want %d", s, got, want)
		}
	}
}

func TestUnknownStatusHasText(t *testing.T) {
	for _, s := range []Status{32, 63, 65, 255} {
		if got, want := s.Name(), "unrecognized error code"; got != want {
			t.Errorf("name of %d: %q, want %q", uint8(s), got, want)
		}
		if got, want := s.Description(), "unrecognized error code"; got != want {
			t.Errorf("description of %d: %q, want %q", uint8(s), got, want)
		}
		if got, want := s.Error(), fmt.Sprintf("unrecognized error code %d", uint8(s)); got != want {
			t.Errorf("error text: %q, want %q", got, want)
		}
	}
}

func TestStatusMatchesItsRelatives(t *testing.T) {
	wrapped := fmt.Errorf("copy: %w", ErrFlushed)
	for _, c := range []struct {
		err, target error
		want        bool
	}{
		{wrapped, ErrFlushed, true},
		{wrapped, ErrIOFailed, true},
		{wrapped, ErrAgain, false},
		{ErrIOFailed, ErrFlushed, false},
		{ErrNotSupported, errors.ErrUnsupported, true},
		{ErrNotPermitted, errors.ErrUnsupported, false},
	} {
		if got := errors.Is(c.err, c.target); got != c.want {
			t.Errorf("errors.Is(%v, %v) = %v, want %v", c.err, c.target, got, c.want)
		}
	}
}

func TestStatusOfFindsTheCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Status
	}{
		{nil, Success},
		{ErrAgain, ErrAgain},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", ErrFull)), ErrFull},
		{errors.ErrUnsupported, ErrNotSupported},
		{errors.New("other"), ErrUnknown},
	} {
		if got := StatusOf(c.err); got != c.want {
			t.Errorf("StatusOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if Success.Err() != nil || ErrAgain.Err() != ErrAgain {
		t.Error("Err must be nil for Success alone")
	}
}

func TestKeepFirstKeepsTheFirst(t *testing.T) {
	var err error
	KeepFirst(&err, nil)
	KeepFirst(&err, ErrFull)
	KeepFirst(&err, ErrAgain)
	if err != ErrFull {
		t.Errorf("kept %v, want %v", err, ErrFull)
	}
}
