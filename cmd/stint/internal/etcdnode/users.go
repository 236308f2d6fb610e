package etcdnode

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Root is etcd's name for who may do everything.
const Root = "root"

// ErrNoRoot: users have not been switched on; the first one is Root.
var ErrNoRoot = errors.New("users are not set up")

// setUpUsers makes root and switches users on, unless they are on already.
// Several nodes may do it at once; the first one's password counts.
func (n *Node) setUpUsers(ctx context.Context) error {
	if n.s.RootPassword == "" {
		return nil
	}
	on := func() bool {
		st, err := n.client.AuthStatus(n.AsRoot(ctx))
		return err == nil && st.Enabled
	}
	if on() {
		return nil
	}
	err := makeRoot(ctx, n.client, n.s.RootPassword)
	if err != nil && !on() {
		return err
	}
	n.s.Log.Info("users are set up", "user", Root)
	return nil
}

func makeRoot(ctx context.Context, c *clientv3.Client, password string) error {
	if _, err := c.RoleAdd(ctx, Root); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return err
	}
	if err := putUser(ctx, c, Root, password); err != nil {
		return err
	}
	if _, err := c.UserGrantRole(ctx, Root, Root); err != nil {
		return err
	}
	_, err := c.AuthEnable(ctx)
	return err
}

// putUser makes a user, or gives it another password.
func putUser(ctx context.Context, c *clientv3.Client, name, password string) error {
	_, err := c.UserAdd(ctx, name, password)
	if errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		_, err = c.UserChangePassword(ctx, name, password)
	}
	return err
}

// AddUser makes a user that may take leases under prefix, and do nothing else;
// or, if there is one of that name, gives it that password and that right too.
// An empty password makes a user that shows a certificate instead, whose common
// name is its name. Root switches users on, if they are not; without it, others
// are refused with ErrNoRoot.
func AddUser(ctx context.Context, c *clientv3.Client, name, password, prefix string) error {
	st, err := c.AuthStatus(ctx)
	switch {
	case err != nil:
		return err
	case !st.Enabled && name == Root:
		return makeRoot(ctx, c, password)
	case !st.Enabled:
		return ErrNoRoot
	case name == Root:
		return putUser(ctx, c, name, password)
	}
	role := "stint:" + prefix
	if _, err := c.RoleAdd(ctx, role); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return err
	}
	dir := strings.TrimSuffix(prefix, "/") + "/"
	_, err = c.RoleGrantPermission(ctx, role, dir, clientv3.GetPrefixRangeEnd(dir), clientv3.PermissionType(clientv3.PermReadWrite))
	if err != nil {
		return err
	}
	if password == "" {
		_, err = c.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
		if errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			err = nil
		}
	} else {
		err = putUser(ctx, c, name, password)
	}
	if err != nil {
		return err
	}
	_, err = c.UserGrantRole(ctx, name, role)
	return err
}
