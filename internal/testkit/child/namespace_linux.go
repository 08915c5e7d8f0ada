package child

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
)

// refused reports whether c was not started because the system makes no
// namespace for it: no permission, none left, or a kernel without them.
func refused(c *exec.Cmd, err error) bool {
	if c.SysProcAttr == nil || c.SysProcAttr.Cloneflags == 0 {
		return false
	}
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)
}
