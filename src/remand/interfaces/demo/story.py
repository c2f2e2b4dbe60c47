"""The story, act by act. Each act shows one rule being kept, and fails loudly should it not be."""

from __future__ import annotations

import os
from typing import Any

from remand.interfaces.demo import gates, noes, reviews
from remand.interfaces.demo.telling import Telling

LIMIT = "ATTEMPTS_PER_MINUTE = 5\n"
NOTES = "# Release notes\n\n- accessible sign-in button\n- rate limit on sign-in\n"


class Story(Telling):
    """Tells the acts in order."""

    def tell(self) -> dict[str, Any]:
        """The whole story; returns what it came to."""
        self.set_the_scene()
        self.claim_in_a_race()
        reviews.reassign(self)
        reviews.deadlock(self)
        gates.measure_a_done_claim(self)
        gates.catch_a_shortcut(self)
        handoff = noes.override_a_lazy_rejection(self)
        noes.decompose_what_grew(self, handoff)
        noes.defer_and_wake(self)
        noes.stop_a_serial_rejecter(self)
        self.lose_a_lease()
        self.kill_the_coordinator()
        self.merge_two_clones()
        self.release()
        noes.learn(self)
        return self.sum_up()

    def set_the_scene(self) -> None:
        """A repository, a team, three tasks."""
        stage = self.stage
        self.heading("A repository, a team of four agents, a lead and an owner")
        os.makedirs(stage.repository)
        stage.git("init", "-q", "-b", "main")
        with open(os.path.join(stage.repository, "README.md"), "w", encoding="utf-8") as file:
            file.write("# A shop\n")
        stage.git("add", "README.md")
        stage.git("commit", "-q", "-m", "start")
        stage.remand("init")
        stage.configure("30m")
        self.add(
            "button", "Sign-in button", "--skills", "frontend", "--alias", "#42", "--branch", "work/button"
        )
        self.add(
            "limit",
            "Rate limit on sign-in",
            "--skills",
            "backend",
            "--branch",
            "work/limit",
            "--priority",
            "high",
        )
        self.add("notes", "Release notes", "--depends-on", self.tasks["button"], self.tasks["limit"])

    def claim_in_a_race(self) -> None:
        """Two processes want one task: one gets it, the other is told who has it."""
        self.heading("Two frontend agents want #42 at the same moment: one claim wins")
        stage = self.stage
        racers = {
            name: stage.start_agent(name, claim=["#42"], only_claims=True) for name in ("Fenster", "Hockney")
        }
        answers = {name: stage.finish(process)["claim"] for name, process in racers.items()}
        winner = next((name for name, answer in answers.items() if "refused" not in answer), "")
        loser = "Hockney" if winner == "Fenster" else "Fenster"
        self.expect(answers[loser], "refused", "already_claimed")
        self.say(f"  {winner} holds it. {loser} is refused: {answers[loser]['message']}")
        stage.remand(
            "task", "release", "#42", "--agent", winner, "--reason", "the race is over", is_quiet=True
        )
        wrong = stage.remand("task", "claim", "#42", "--agent", "McManus")
        self.expect(wrong, "refused", "not_eligible")
        self.say(f"  McManus is refused: {wrong['message']}")

    def lose_a_lease(self) -> None:
        """An agent dies; its lease ends; another takes over; the dead one's late work is refused."""
        stage = self.stage
        self.heading("McManus is killed in the middle of its work; its lease ends without blame")
        stage.configure("1s")
        process = stage.start_agent("McManus", claim=[self.tasks["limit"]], hangs=True)
        held = stage.first_words(process, 2)["claim"]
        stage.kill(process)
        self.say(f"  killed while it held {held['handoff_id']} (epoch {held['epoch']})")
        stage.wait_for(1.2)
        stage.configure("30m")
        work = stage.finish(
            stage.start_agent(
                "Kobayashi",
                claim=[self.tasks["limit"]],
                file="api/limit.py",
                text=LIMIT,
                message="Limit sign-in attempts",
            )
        )
        self.expect(work["submit"], "status", "provisional")
        late = stage.remand(
            *("task", "submit", self.tasks["limit"], "--agent", "McManus"),
            *("--handoff", held["handoff_id"], "--commit", "HEAD"),
        )
        self.expect(late, "refused", "lease_lost")
        self.say(f"  McManus comes back from the dead and is refused: {late['message']}")
        stage.remand(
            "review", "approve", self.tasks["limit"], "--reviewer", "Lead", "--commit", work["submit"]["at"]
        )

    def kill_the_coordinator(self) -> None:
        """The resident process is killed; nothing is lost and nothing has to be done about it."""
        stage = self.stage
        self.heading("A coordinator runs, and is killed with -9: nothing is lost")
        process = stage.start_coordinator()
        self.add("faq", "Write the FAQ", "--priority", "low")
        stage.kill(process)
        stage.remand("task", "edit", self.tasks["faq"], "--scope", "Three questions are enough")
        verified = stage.remand("log", "verify")
        self.expect(verified, "ok", True)
        self.say(f"  {verified['events']} events, all in order")

    def merge_two_clones(self) -> None:
        """Two clones work apart; their stories merge with git, and both know the same."""
        stage = self.stage
        self.heading("A colleague's clone works offline; git merges both stories")
        stage.remand("log", "publish")
        clone = os.path.join(stage.folder, "clone")
        stage.git("clone", "-q", stage.repository, clone, folder=stage.folder)
        claimed = stage.remand("task", "claim", self.tasks["faq"], "--agent", "Fenster", folder=clone)
        self.expect(claimed, "task_id", self.tasks["faq"])
        stage.remand("log", "publish", folder=clone)
        self.add("shop", "Open the shop")
        stage.remand("log", "publish")
        stage.git("pull", "-q", "--no-rebase", "--no-edit", clone, "main")
        stage.git("pull", "-q", "--no-rebase", "--no-edit", folder=clone)
        here, there = stage.remand("log", "digest"), stage.remand("log", "digest", folder=clone)
        self.expect(there, "digest", here["digest"])
        self.say(f"  both clones: {here['digest'][:16]}…, {here['events']} events, no conflict")

    def release(self) -> None:
        """What waited for the others is free now."""
        self.heading("Both tasks are done, so the release notes are free")
        work = self.stage.finish(
            self.stage.start_agent(
                "Hockney", claim=[self.tasks["notes"]], file="NOTES.md", text=NOTES, message="Write the notes"
            )
        )
        self.expect(work["submit"], "status", "provisional")
        done = self.stage.remand(
            "review", "approve", self.tasks["notes"], "--reviewer", "owner", "--commit", work["submit"]["at"]
        )
        self.expect(done, "status", "done")

    def sum_up(self) -> dict[str, Any]:
        """Where everything stands."""
        self.heading("Where everything stands")
        tasks = self.stage.remand("task", "list")
        verified = self.stage.remand("log", "verify", is_quiet=True)
        return {"tasks": tasks, "events": verified["events"], "ok": verified["ok"]}
