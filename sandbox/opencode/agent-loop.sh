#!/bin/sh
exec gander loop run --agent opencode "$@"
