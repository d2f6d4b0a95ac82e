#!/usr/bin/env python3
"""Checks the Markdown files: every relative link leads to a file, and its anchor to a heading; docs/README.md lists all pages.

usage: check-links.py ROOT
"""
import pathlib
import re
import subprocess
import sys


def prose(text):
    """The text without code, in which nothing is a link."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


def anchor(heading):
    """The anchor that GitHub makes of a heading: "The contest's instances" is #the-contests-instances."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path):
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.M | re.S)
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    # Files of git, so that build folders and the like do not count; all there are where there is no git.
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True,
                            text=True).stdout.split()
    pages = [root / name for name in listed] or [p for p in root.rglob("*.md") if "build" not in str(p)]
    wrong, links = [], 0
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            name, _, heading = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists():
                wrong.append(f"{page.relative_to(root)}: no file {target}")
            elif heading and heading not in anchors(file):
                wrong.append(f"{page.relative_to(root)}: no heading {target}")
    index = (root / "docs/README.md").read_text()
    for page in sorted((root / "docs").glob("*.md")):
        if page.name != "README.md" and f"({page.name}" not in index:
            wrong.append(f"docs/README.md does not list {page.name}")
    if wrong or not links:
        sys.exit("\n".join(wrong) or "no links found")
    print(f"{links} links in {len(pages)} files")


if __name__ == "__main__":
    main()
