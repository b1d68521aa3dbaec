"""What all runtime knobs share: they tell what they did, what they found done, and what they would not do."""

from ..hooks.base import Hook

_TEXTS_MAX = 20


class Account:
    """The state of one knob, as it is written down."""

    knob = ""
    unused = "nothing came up that it could change"

    def __init__(self, value):
        self.value = value
        self.error = None
        self.clear()

    def clear(self):
        self.applied, self.already, self.refused = {}, {}, {}

    def note(self, table, text):
        if text in table or len(table) < _TEXTS_MAX:
            table[text] = table.get(text, 0) + 1

    def did(self, text):
        self.note(self.applied, text)

    def found(self, text):
        self.note(self.already, text)

    def refuse(self, text):
        self.note(self.refused, text)

    def undone(self):
        """Why it is not in effect after all; empty where it is. Asked anew for each row, changes nothing."""
        return ""

    def elsewhere_not(self):
        """Where it is in effect only in part, why not in the rest. Asked anew for each row."""
        return "; ".join(self.refused)

    def row(self):
        undone = refused = ""
        if self.error is None:
            try:
                undone, refused = self.undone(), self.elsewhere_not()
            except Exception as error:
                self.error = repr(error)[:500]
        state, did, why = self._told(undone, refused)
        return {"name": self.knob, "value": self.value, "state": state, "did": did[:1000], "why": why[:1000]}

    def _told(self, undone, refused):
        if self.error is not None:
            return "failed", "", self.error
        if undone:
            return "refused", "", undone
        if self.applied:
            return "applied", "; ".join(self.applied), refused and "elsewhere not: " + refused
        if self.already:
            return "already", "; ".join(self.already), refused and "elsewhere not: " + refused
        return ("refused", "", refused) if refused else ("unused", "", self.unused)


class RuntimeKnob(Account, Hook):
    """A knob with a hook of its own."""

    modules = ("torch",)

    def __init__(self, agent, value):
        self.name = "knob_" + self.knob
        Account.__init__(self, value)
        Hook.__init__(self, agent)

    def forked(self):
        self.clear()

    def fail(self, error, when):
        super().fail(error, when)
        self.clear()
