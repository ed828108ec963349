#!/bin/sh
# Installs the browser with which tests look at the engines' pages, on Debian and as root; elsewhere it says so.
set -eu

has() { command -v "$1" >/dev/null; }

if has chromium && has chromedriver; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "no Chromium: the tests of pages will be skipped (they need Debian's chromium and chromium-driver)"
    exit 0
fi
echo "installing Debian's Chromium for the tests"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null; }
install || { apt-get update -qq && install; } || echo "that failed: the tests of pages will be skipped"
