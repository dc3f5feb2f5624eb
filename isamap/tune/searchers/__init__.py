"""The searchers that come with isamap, each as a package of yours may offer one."""
