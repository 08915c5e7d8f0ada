package core

import (
	"errors"
	"strconv"
)

// A Status is why a task ended, or why a call was refused.
//
// It is an error that costs nothing to return: one byte, no allocation.
// Values 1 to 31 are DOCA's error numbers; from 64 on they are Gantry's own.
// Zero means success and is never returned as an error: see [Status.Err].
// Set-up calls wrap a Status with the argument and the limit that were
// wrong, so compare with [errors.Is], or take the code with [StatusOf].
type Status uint8

// The codes of DOCA, with their numbers.
const (
	Success               Status = 0  // the call or the task did what was asked
	ErrUnknown            Status = 1  // unknown error
	ErrNotPermitted       Status = 2  // the operation is not permitted
	ErrInUse              Status = 3  // the resource still has users
	ErrNotSupported       Status = 4  // the device or the platform cannot do this
	ErrAgain              Status = 5  // full for the moment: progress, then try again
	ErrInvalidValue       Status = 6  // an argument is wrong
	ErrNoMemory           Status = 7  // a fixed pool is empty, or allocation failed
	ErrInitialization     Status = 8  // a resource could not be initialised
	ErrTimeOut            Status = 9  // a timer expired
	ErrShutdown           Status = 10 // shut down, or shutting down
	ErrConnectionReset    Status = 11 // the peer ended the connection
	ErrConnectionAborted  Status = 12 // the connection was aborted
	ErrConnectionProgress Status = 13 // the connection is being made
	ErrNotConnected       Status = 14 // not connected; a context without an engine
	ErrNoLock             Status = 15 // a lock could not be taken
	ErrNotFound           Status = 16 // no such thing
	ErrIOFailed           Status = 17 // the operation failed in the engine
	ErrBadState           Status = 18 // the object is in the wrong state for this call
	ErrUnsupportedVersion Status = 19 // the version is not supported
	ErrOperatingSystem    Status = 20 // a call of the operating system failed
	ErrDriver             Status = 21 // a call of the driver failed
	ErrUnexpected         Status = 22 // something that should not happen
	ErrAlreadyExists      Status = 23 // it exists already
	ErrFull               Status = 24 // no more room in the resource
	ErrEmpty              Status = 25 // nothing there
	ErrInProgress         Status = 26 // started; progress until it is done
	ErrTooBig             Status = 27 // too big to be contained
	ErrAuthentication     Status = 28 // authentication failed
	ErrBadConfig          Status = 29 // the configuration is not valid
	ErrSkipped            Status = 30 // valid, but earlier output was dropped
	ErrDeviceFatal        Status = 31 // the device had a fatal error
)

// The codes of Gantry. DOCA has no number for them: see [Status.Code].
const (
	// ErrFlushed ends a task that never ran because its context stopped.
	// It also matches ErrIOFailed, the code that DOCA gives such a task.
	ErrFlushed Status = 64
)

// statusText holds the symbol and the description of every code.
var statusText = map[Status][2]string{
	Success:               {"DOCA_SUCCESS", "success"},
	ErrUnknown:            {"DOCA_ERROR_UNKNOWN", "unknown error"},
	ErrNotPermitted:       {"DOCA_ERROR_NOT_PERMITTED", "operation not permitted"},
	ErrInUse:              {"DOCA_ERROR_IN_USE", "resource already in use"},
	ErrNotSupported:       {"DOCA_ERROR_NOT_SUPPORTED", "operation not supported"},
	ErrAgain:              {"DOCA_ERROR_AGAIN", "temporarily unavailable, try again"},
	ErrInvalidValue:       {"DOCA_ERROR_INVALID_VALUE", "invalid input"},
	ErrNoMemory:           {"DOCA_ERROR_NO_MEMORY", "out of memory, or the pool is empty"},
	ErrInitialization:     {"DOCA_ERROR_INITIALIZATION", "initialisation failed"},
	ErrTimeOut:            {"DOCA_ERROR_TIME_OUT", "timer expired"},
	ErrShutdown:           {"DOCA_ERROR_SHUTDOWN", "shut down in progress or completed"},
	ErrConnectionReset:    {"DOCA_ERROR_CONNECTION_RESET", "connection reset by peer"},
	ErrConnectionAborted:  {"DOCA_ERROR_CONNECTION_ABORTED", "connection aborted"},
	ErrConnectionProgress: {"DOCA_ERROR_CONNECTION_INPROGRESS", "connection in progress"},
	ErrNotConnected:       {"DOCA_ERROR_NOT_CONNECTED", "not connected"},
	ErrNoLock:             {"DOCA_ERROR_NO_LOCK", "lock not acquired"},
	ErrNotFound:           {"DOCA_ERROR_NOT_FOUND", "not found"},
	ErrIOFailed:           {"DOCA_ERROR_IO_FAILED", "input or output failed"},
	ErrBadState:           {"DOCA_ERROR_BAD_STATE", "bad state"},
	ErrUnsupportedVersion: {"DOCA_ERROR_UNSUPPORTED_VERSION", "unsupported version"},
	ErrOperatingSystem:    {"DOCA_ERROR_OPERATING_SYSTEM", "operating system call failed"},
	ErrDriver:             {"DOCA_ERROR_DRIVER", "driver call failed"},
	ErrUnexpected:         {"DOCA_ERROR_UNEXPECTED", "unexpected scenario"},
	ErrAlreadyExists:      {"DOCA_ERROR_ALREADY_EXIST", "already exists"},
	ErrFull:               {"DOCA_ERROR_FULL", "no more space in the resource"},
	ErrEmpty:              {"DOCA_ERROR_EMPTY", "no entry available"},
	ErrInProgress:         {"DOCA_ERROR_IN_PROGRESS", "operation in progress"},
	ErrTooBig:             {"DOCA_ERROR_TOO_BIG", "too big to be contained"},
	ErrAuthentication:     {"DOCA_ERROR_AUTHENTICATION", "authentication failed"},
	ErrBadConfig:          {"DOCA_ERROR_BAD_CONFIG", "configuration not valid"},
	ErrSkipped:            {"DOCA_ERROR_SKIPPED", "result valid, earlier output dropped"},
	ErrDeviceFatal:        {"DOCA_ERROR_DEVICE_FATAL_ERROR", "device fatal error"},
	ErrFlushed:            {"GANTRY_ERROR_FLUSHED", "flushed: the context stopped before the task ran"},
}

// unrecognized is what a code outside the table is called.
const unrecognized = "unrecognized error code"

// Name returns the symbol of the code, such as DOCA_ERROR_AGAIN.
func (s Status) Name() string {
	if t, ok := statusText[s]; ok {
		return t[0]
	}
	return unrecognized
}

// Description returns one line about the code.
func (s Status) Description() string {
	if t, ok := statusText[s]; ok {
		return t[1]
	}
	return unrecognized
}

// Error implements error: the description, and the number of an unknown code.
func (s Status) Error() string {
	if t, ok := statusText[s]; ok {
		return t[1]
	}
	return unrecognized + " " + strconv.Itoa(int(s))
}

// String returns the symbol of the code.
func (s Status) String() string { return s.Name() }

// Code returns the number that DOCA has for s: s itself, or the nearest of
// DOCA's codes for one of ours.
func (s Status) Code() int {
	if s == ErrFlushed {
		return int(ErrIOFailed)
	}
	return int(s)
}

// Is makes a code match its relatives under errors.Is: a flushed task failed
// in the engine, and what a platform does not have is not supported.
func (s Status) Is(target error) bool {
	return s == ErrFlushed && target == error(ErrIOFailed) ||
		s == ErrNotSupported && target == errors.ErrUnsupported
}

// Err returns s as an error: nil for Success.
func (s Status) Err() error {
	if s == Success {
		return nil
	}
	return s
}

// StatusOf returns the code inside err: Success for nil, the wrapped Status
// where there is one, ErrNotSupported for errors.ErrUnsupported, and
// ErrUnknown for any other error.
func StatusOf(err error) Status {
	var s Status
	switch {
	case err == nil:
		return Success
	case errors.As(err, &s):
		return s
	case errors.Is(err, errors.ErrUnsupported):
		return ErrNotSupported
	}
	return ErrUnknown
}

// KeepFirst stores err in *first unless an error is there already: the rule
// of every clean-up path, where the first failure is the one to report.
func KeepFirst(first *error, err error) {
	if *first == nil {
		*first = err
	}
}
